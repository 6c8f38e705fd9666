import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type LoadedModel, loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { Pooling, type Slice } from '../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { DecoderSteps, returnedOf } from '../support/decoder-steps.js';
import { readFloat64 } from '../support/float64-tensors.js';
import { pooledStates } from '../support/pooled-states.js';
import { writeRandomFamily } from '../support/random-model.js';

const SIZE = 64;
const LABELS = 2;
const LIMITS = { maxContext: 64, maxSequences: 40, maxStepTokens: 96, kvMemoryBytes: 0 } as const;
const file = writeRandomFamily('qwen3', { tensors: { 'cls.output.weight': { dims: [SIZE, LABELS] } } });
const promptOf = (length: number, seed: number) => Array.from({ length }, (_, i) => 3 + ((i * 37 + seed * 11) % 200));

const device = openDevice({ kind: 'host' });
let model: LoadedModel;
beforeAll(async () => {
  model = await loadModel(device, { path: file, fingerprint: '', kvCacheType: 'f32', ...LIMITS }, () => undefined);
});
afterAll(() => model.release());

const stepsOf = (prompts: readonly (readonly number[])[]) => new DecoderSteps(device, model, prompts);

/** Hidden states of each token of a prompt, returned as they are. */
async function statesOf(prompt: readonly number[]): Promise<Float32Array> {
  const whole = { count: prompt.length, sample: true, pooling: Pooling.NONE };
  const [states] = returnedOf(await stepsOf([prompt]).run(whole));
  return states!;
}

const meanOf = async (prompt: readonly number[]) =>
  pooledStates('mean', prompt.length, SIZE).add(await statesOf(prompt))!;
const lastOf = async (prompt: readonly number[]) => (await statesOf(prompt)).slice(-SIZE);

describe('a prompt of a decoder', () => {
  const prompt = promptOf(37, 1);
  const mean = { pooling: Pooling.MEAN };

  it('is pooled to the mean of its states, in however many slices', async () => {
    const expected = await meanOf(prompt);
    for (const cuts of [[0], [0, 1], [0, 36], [0, 5, 16, 17, 30]]) {
      const steps = stepsOf([prompt]);
      for (const [i, position] of cuts.entries()) {
        const end = cuts[i + 1] ?? prompt.length;
        const sample = end === prompt.length;
        const returned = returnedOf(await steps.run({ ...mean, position, count: end - position, sample }));
        expect(returned).toEqual(sample ? [expected] : []);
      }
    }
  });

  it('has the bits of its mean beside others, beside generation, and where it begins anew in its slot', async () => {
    const prompts = [prompt, promptOf(30, 2), promptOf(9, 3), promptOf(12, 4)];
    const steps = stepsOf(prompts);
    await steps.run(
      { ...mean, count: 20 },
      { slot: 1, count: 30, sample: true, ...mean },
      { slot: 2, count: 3, ...mean },
    );
    // As after a preemption.
    await steps.run({ slot: 3, count: 12, sample: true }, { ...mean, count: 7 });
    const response = await steps.run(
      { slot: 3, position: 12, sample: true },
      { slot: 2, position: 3, count: 6, sample: true, ...mean },
      { ...mean, position: 7, count: 30, sample: true },
    );
    expect(returnedOf(response)).toEqual([await meanOf(prompts[2]!), await meanOf(prompt)]);
    expect(response.outputs.map(({ slot }) => slot)).toEqual([3, 2, 0]);
  });

  it('is pooled to its last state, beside states that are not pooled', async () => {
    const prompts = [prompt, promptOf(30, 2), promptOf(9, 3)];
    const steps = stepsOf(prompts);
    await steps.run({ count: 20 });
    const response = await steps.run(
      { slot: 1, count: 30, sample: true, pooling: Pooling.NONE },
      { position: 20, count: 17, sample: true, pooling: Pooling.LAST },
      { slot: 2, count: 9, sample: true, ...mean },
    );
    const [states, last, pooled] = returnedOf(response);
    expect(states).toEqual(await statesOf(prompts[1]!));
    expect(last).toEqual(await lastOf(prompt));
    expect(pooled).toEqual(await meanOf(prompts[2]!));
  });

  it('has scores of its pooled state: its products with the rows of the head', async () => {
    const prompts = [prompt, promptOf(30, 2)];
    const weight = readFloat64(file).tensor('cls.output.weight');
    const last = { sample: true, pooling: Pooling.LAST, score: true };
    const [one, other] = returnedOf(
      await stepsOf(prompts).run({ ...last, count: 37 }, { ...last, slot: 1, count: 30, score: undefined }),
    );
    const state = await lastOf(prompt);
    expect(other).toEqual(await lastOf(prompts[1]!));
    expect(one).toHaveLength(LABELS);
    for (const [label, score] of one!.entries()) {
      const row = weight.subarray(label * SIZE, (label + 1) * SIZE);
      const magnitude = row.reduce((sum, value, i) => sum + Math.abs(value * state[i]!), 0);
      const exact = row.reduce((sum, value, i) => sum + value * state[i]!, 0);
      // A sum of 64 products in f32, in any order.
      expect(Math.abs(score - exact)).toBeLessThanOrEqual(SIZE * 2 ** -24 * magnitude);
    }
  });

  it.each<readonly [string, readonly Partial<Slice>[], RegExp]>([
    [
      'a mean from elsewhere',
      [
        { ...mean, count: 9 },
        { ...mean, position: 10, count: 9 },
      ],
      /whose sums end at 9/,
    ],
    [
      'a mean of what was computed without',
      [{ count: 9 }, { ...mean, position: 9, count: 28, sample: true }],
      /whose sums end at 0/,
    ],
    ['the first state', [{ pooling: Pooling.FIRST, count: 37, sample: true }], /pooling 2 of slot 0/],
    ['the last state of a slice that samples nothing', [{ pooling: Pooling.LAST, count: 9 }], /pooling 3 of slot 0/],
    ['an unknown pooling', [{ pooling: 9 as Pooling, count: 37, sample: true }], /pooling 9 of slot 0/],
    ['more unpooled states than slots', [{ pooling: Pooling.NONE, count: 41 }], /more than 40 hidden states/],
    ['scores of each state', [{ pooling: Pooling.NONE, count: 9, score: true }], /scores of slot 0, which has none/],
    ['scores of nothing', [{ count: 9, score: true }], /scores of slot 0, whose states are not pooled/],
  ])('is refused: %s', async (_what, slices, message) => {
    const steps = stepsOf([promptOf(60, 1)]);
    for (const slice of slices.slice(0, -1)) await steps.run(slice);
    await expect(steps.run(slices.at(-1)!)).rejects.toThrow(message);
  });
});
