import { beforeAll, describe, expect, it } from 'vitest';
import { logitsHashes } from '../../src/cli/verify/invariance.js';
import type { Device } from '../../src/executor/device/device.js';
import type { LoadOptions } from '../../src/executor/load/load-options.js';
import { type LoadedModel, loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevices } from '../../src/executor/load/open-device.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';
import { writeRandomModel } from '../support/random-model.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

const PROMPT = 20;
/** Two parts of as many rows as a GPU's have at least. */
const LONG = 256;

// Cases of test/executor/layer-split.test.ts on the host, in few rows: these devices simulate every thread.
describe.skipIf(missing !== undefined)(
  'a model split between layers over two HIP devices',
  { timeout: 300_000 },
  () => {
    const double = new HipDouble({ devices: 2 });
    let devices: readonly Device[];
    let path: string;
    let alone: readonly string[];

    async function load(on: readonly Device[], options: Partial<LoadOptions> = {}): Promise<LoadedModel> {
      const limits = { maxContext: 320, maxSequences: 4, maxStepTokens: 300, kvMemoryBytes: 0, fingerprint: '' };
      return loadModel(on, { path, kvCacheType: 'f16', ...limits, ...options }, () => undefined);
    }
    const hashes = (model: LoadedModel, chunk: number, others = 0) =>
      logitsHashes(model.pipeline.last.device, model, chunk, others, PROMPT);
    const callsOf = async (work: () => Promise<unknown>): Promise<readonly string[]> => {
      const before = double.calls().length;
      await work();
      return double.calls().slice(before);
    };

    beforeAll(async () => {
      double.install();
      devices = openDevices({ kind: 'hip', gpus: [0, 1] });
      path = writeRandomModel({ type: 'F16', layers: 3, contextLength: 320, headDim: 64 });
      const whole = await load(devices.slice(0, 1));
      alone = await hashes(whole, PROMPT);
      whole.release();
    });

    it.each([
      ['by copies to the peer', {}, 'peer'],
      ['through pinned memory of the host', { throughHost: true }, 'out'],
    ] as const)('has the hash of one device, %s', async (_how, options, copy) => {
      const split = await load(devices, options);
      try {
        expect(await hashes(split, 1), 'a token at a time').toEqual(alone);
        const calls = await callsOf(async () => {
          expect(await hashes(split, PROMPT), 'alone').toEqual(alone);
        });
        const { hiddenSize } = split.forward.model;
        // The residual stream of the prompt; of the steps of one token, which run as graphs, one row each.
        const crossed = (rows: number) => calls.filter((call) => call === `${copy} ${4 * rows * hiddenSize}`).length;
        expect([crossed(PROMPT), crossed(1)]).toEqual([1, 3]);
        expect(calls.filter((call) => call.startsWith('graph '))).toHaveLength(2 * 3);
        expect(calls.some((call) => call.startsWith('peer'))).toBe(copy === 'peer');
        expect(await hashes(split, 7, 3), 'in chunks of 7 among 3 others').toEqual(alone);
      } finally {
        split.release();
      }
      for (const { usedBytes } of devices) expect(usedBytes).toBe(0);
    });

    it('has it, too, where a prompt goes through in parts', async () => {
      const [whole, split] = [await load(devices.slice(0, 1)), await load(devices)];
      try {
        const expected = await logitsHashes(devices[0]!, whole, LONG, 0, LONG);
        const calls = await callsOf(async () => {
          expect(await logitsHashes(devices[1]!, split, LONG, 0, LONG)).toEqual(expected);
        });
        const parts = calls.filter((call) => call === `peer ${(4 * LONG * split.forward.model.hiddenSize) / 2}`);
        expect(parts).toHaveLength(2);
      } finally {
        whole.release();
        split.release();
      }
    });
  },
);
