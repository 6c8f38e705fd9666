import path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { promptOf } from '../../src/cli/verify/invariance.js';
import { type Slice, StepDriver } from '../../src/cli/verify/step-driver.js';
import { greedy, readParityCases } from '../../src/cli/verify/teacher-forced.js';
import type { Device } from '../../src/executor/device/device.js';
import { OUTPUT_WORDS } from '../../src/executor/kernels/index.js';
import { type LoadedModel, loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import type { Sampling } from '../../src/executor/model/sampling.js';
import { slotArena } from '../../src/executor/model/slot-layout.js';
import { OUTPUT_HEADER } from '../../src/executor/model/step-tables.js';
import { packageRoot } from '../../src/shared/package.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';
import { writeRandomModel } from '../support/random-model.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

describe.skipIf(missing !== undefined)('the executor on a HIP device', () => {
  const double = new HipDouble();
  beforeAll(() => double.install());

  it('generates every token of llama.cpp with the demo model', { timeout: 600_000 }, async () => {
    const cases = readParityCases(path.join(packageRoot, 'test', 'fixtures', 'demo-parity.json'));
    const result = await greedy(path.join(packageRoot, 'models', 'demo.gguf'), cases, { kind: 'hip' });
    expect(result).toEqual({ tokens: 12 * 64, same: 12 * 64 });
  });

  describe('with a small model', () => {
    const SEQUENCES = 8;
    let device: Device;
    let model: LoadedModel;
    let generation = 0n;
    beforeAll(async () => {
      device = openDevice({ kind: 'hip' });
      const limits = { maxContext: 64, maxSequences: SEQUENCES, maxStepTokens: 256, kvMemoryBytes: 0 };
      const options = {
        path: writeRandomModel({ type: 'F16' }),
        kvCacheType: 'f16',
        fingerprint: '',
        ...limits,
      } as const;
      model = await loadModel(device, options, () => undefined);
    });
    const driverOf = () => new StepDriver(device, model, ++generation);
    const prompts = (count: number) =>
      Array.from({ length: count }, (_, slot) => [slot, promptOf(slot, 10 + slot, 256)] as const);

    it('each step copies once to the device and once from it, the tables and the results alone', async () => {
      const driver = driverOf();
      const opens = prompts(3);
      const { offsets } = model.forward.tables;
      const of = (calls: readonly string[]) => calls.filter((call) => /^(in|out|copy_words) /.test(call));
      let seen = double.calls().length;
      let before = device.native.copies();
      const stepOf = async (slices: readonly Slice[], opened: typeof opens = []) => {
        await driver.sample(slices, opened);
        const calls = double.calls().slice(seen);
        seen += calls.length;
        const now = device.native.copies();
        const [ins, outs] = [now.in - before.in, now.out - before.out];
        const copied = { ins, inBytes: now.inBytes - before.inBytes, outs, outBytes: now.outBytes - before.outBytes };
        before = now;
        return { calls, copied };
      };
      const prefill = await stepOf(
        opens.map(([slot, tokens]) => [slot, 0, tokens.length, true] as const),
        opens,
      );
      // Few words: a launch before all others, and one behind them.
      expect(of(prefill.calls)).toEqual(['copy_words 0', 'copy_words 0']);
      expect([prefill.calls.at(0), prefill.calls.at(-1)]).toEqual(['copy_words 0', 'copy_words 0']);
      const outBytes = (OUTPUT_HEADER + 3 * OUTPUT_WORDS) * 4;
      expect(prefill.copied).toEqual({ ins: 1, inBytes: expect.any(Number), outs: 1, outBytes });
      const decode = await stepOf(opens.map(([slot, tokens]) => [slot, tokens.length, 1, true] as const));
      expect(of(decode.calls)).toEqual(['copy_words 0', 'copy_words 0']);
      expect(decode.copied).toEqual({ ins: 1, inBytes: offsets.writePairs * 4, outs: 1, outBytes });
      expect(decode.calls.filter((call) => call.startsWith('graph '))).toHaveLength(1);
    });

    it('a step of 5 sequences in a captured graph of 8 gives the bits of the launches one by one', async () => {
      const rows = (await import('../../src/executor/steps/step-runner.js')).StepRunner;
      const run = async () => {
        const driver = driverOf();
        const opens = prompts(5);
        await driver.step(
          opens.map(([slot, tokens]) => [slot, 0, tokens.length, true] as const),
          opens,
        );
        const decode = opens.map(([slot, tokens]) => [slot, tokens.length, 1, true] as const);
        return [
          await driver.step(decode),
          await driver.step(decode.map(([slot, at]) => [slot, at + 1, 1, true] as const)),
        ];
      };
      const captured = await run();
      // The same steps when nothing counts as recurring.
      const prototype = rows.prototype as unknown as { isRecurring: () => boolean };
      const { isRecurring } = prototype;
      prototype.isRecurring = () => false;
      try {
        expect(await run()).toEqual(captured);
      } finally {
        prototype.isRecurring = isRecurring;
      }
    });

    it('and its padded rows copy no logits and keep no history', async () => {
      const driver = driverOf();
      const opens = prompts(5);
      await driver.sample(
        opens.map(([slot, tokens]) => [slot, 0, tokens.length, true] as const),
        opens,
      );
      const { forward } = model;
      const arena = slotArena(forward.limits);
      const { adjusted } = forward.sampling as Sampling;
      const sentinel = new Float32Array(adjusted.elements).fill(-7);
      device.native.write(adjusted.address, new Uint8Array(sentinel.buffer));
      await driver.sample(opens.map(([slot, tokens]) => [slot, tokens.length, 1, true] as const));
      // Nobody has penalties or biases: neither the five nor the three rows that fill the graph.
      expect(device.readF32(adjusted).every((value) => value === -7)).toBe(true);
      const history = arena.historyOffset + SEQUENCES * (1 + 2 * arena.historyEntries);
      const word = device.native.read(forward.slots.address + 4 * history, 4);
      expect(new Int32Array(word.buffer, word.byteOffset, 1)[0]).toBe(-1);
    });

    it('and touches no block of a sequence that is not in it', async () => {
      const driver = driverOf();
      // Other tokens than before: what is written shows.
      const opens = prompts(SEQUENCES).map(([slot, tokens]) => [slot, tokens.map((id) => id + 1)] as const);
      await driver.sample(
        opens.map(([slot, tokens]) => [slot, 0, tokens.length, true] as const),
        opens,
      );
      const { cache, limits } = model.forward;
      const owners = (block: number) => (block - 1) % limits.maxSequences;
      const bytesOf = (layer: number) => {
        const { k } = cache.layer(layer);
        return device.native.read(k.address, k.elements * 2);
      };
      const before = bytesOf(0);
      const decoding = opens.slice(0, 5);
      await driver.sample(decoding.map(([slot, tokens]) => [slot, tokens.length, 1, true] as const));
      const after = bytesOf(0);
      const { blocks } = cache.layer(0);
      const blockBytes = before.length / blocks;
      const changed = Array.from({ length: blocks }, (_, block) => block).filter(
        (block) =>
          !Buffer.from(before.buffer, block * blockBytes, blockBytes).equals(
            Buffer.from(after.buffer, block * blockBytes, blockBytes),
          ),
      );
      expect(
        changed
          .filter((block) => block !== 0)
          .map(owners)
          .sort(),
      ).toEqual([0, 1, 2, 3, 4]);
    });
  });
});
