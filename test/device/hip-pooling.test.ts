import { beforeAll, describe, expect, it } from 'vitest';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { Pooling } from '../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { DecoderSteps, returnedOf } from '../support/decoder-steps.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';
import { pooledStates } from '../support/pooled-states.js';
import { writeRandomFamily } from '../support/random-model.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

const SIZE = 64;
const LOAD = { maxContext: 64, maxSequences: 32, maxStepTokens: 64, kvMemoryBytes: 0, kvCacheType: 'f16' } as const;
const promptOf = (length: number, seed: number) => Array.from({ length }, (_, i) => 3 + ((i * 37 + seed * 11) % 200));

// The device simulates every thread.
describe.skipIf(missing !== undefined)('a prompt of a decoder on a HIP device', () => {
  const double = new HipDouble();
  beforeAll(() => double.install());

  it('is pooled to the bits of its states, in several slices and beside generation, and has scores', {
    timeout: 600_000,
  }, async () => {
    const device = openDevice({ kind: 'hip' });
    const path = writeRandomFamily('qwen3', { tensors: { 'cls.output.weight': { dims: [SIZE, 2] } } });
    const model = await loadModel(device, { path, fingerprint: '', ...LOAD }, () => undefined);
    const prompts = [promptOf(29, 1), promptOf(12, 2), promptOf(9, 3)];
    const mean = { pooling: Pooling.MEAN };
    const alone = async (prompt: readonly number[]) => {
      const whole = { count: prompt.length, sample: true, pooling: Pooling.NONE };
      return returnedOf(await new DecoderSteps(device, model, [prompt]).run(whole))[0]!;
    };
    const [states, others] = [await alone(prompts[0]!), await alone(prompts[1]!)];
    const steps = new DecoderSteps(device, model, prompts);
    await steps.run({ ...mean, count: 11 }, { slot: 2, count: 9, sample: true });
    // A captured graph runs between the slices.
    await steps.run({ slot: 2, position: 9, sample: true });
    const last = { slot: 1, count: 12, sample: true, pooling: Pooling.LAST };
    const both = await steps.run({ ...mean, position: 11, count: 18, sample: true }, last);
    expect(returnedOf(both)).toEqual([pooledStates('mean', 29, SIZE).add(states), others.slice(-SIZE)]);
    const scored = new DecoderSteps(device, model, prompts);
    const [scores] = returnedOf(await scored.run({ ...last, score: true }));
    expect(
      returnedOf(await new DecoderSteps(device, model, prompts).run({ count: 29 }, { ...last, score: true })),
    ).toEqual([scores]);
    model.release();
  });
});
