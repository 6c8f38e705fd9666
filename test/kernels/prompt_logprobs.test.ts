import fc from 'fast-check';
import { expect, it } from 'vitest';
import { promptLogprobs as contract } from '../../src/executor/kernels/index.js';
import { promptLogprobs } from './reference/prompt_logprobs.js';
import { expectClose } from './support/compare.js';
import { onEachTarget, type Target } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

const UNTOUCHED = -9;

/** `draws` sampled rows come first and stay as they are; the others are held against the reference, word by word. */
async function checkRows(
  target: Target,
  rows: Float32Array[],
  draws: number,
  targets: readonly (readonly [token: number, top: number])[],
  top_max: number,
) {
  const vocabulary = rows[0]!.length;
  const width = 3 + 2 * top_max;
  const logits = new Float32Array(rows.length * vocabulary);
  for (const [i, row] of rows.entries()) logits.set(row, i * vocabulary);
  const result = await target.launch(
    contract,
    {
      logits,
      draws: Int32Array.of(draws),
      target: Int32Array.from(targets.flat()),
      output: new Int32Array(rows.length * width).fill(UNTOUCHED),
      top_max,
      vocabulary,
    },
    { samples: rows.length, prompt_rows: rows.length - draws },
  );
  rows.forEach((row, i) => {
    const ids = (result.output as Int32Array).slice(i * width, (i + 1) * width);
    const floats = new Float32Array(ids.buffer);
    const [token, top] = targets[i]!;
    const count = i < draws ? -1 : Math.min(top, top_max, vocabulary);
    const isSet = (word: number) =>
      count >= 0 &&
      (word < 2 || word === width - 1 || (word - 2 < top_max ? word - 2 < count : word - 2 - top_max < count));
    for (let word = 0; word < width; word++) if (!isSet(word)) expect(ids[word]).toBe(UNTOUCHED);
    if (count < 0) return;
    const expected = promptLogprobs(row, token, count);
    expect(ids[0]).toBe(token);
    expect([...ids.slice(2, 2 + count)]).toEqual(expected.ids);
    expect(ids[width - 1]).toBe(expected.rank);
    const actual = [floats[1]!, ...floats.slice(2 + top_max, 2 + top_max + count)];
    expectClose(contract, actual, { values: Float64Array.of(expected.logprob, ...expected.logprobs) }, {});
  });
}

onEachTarget('prompt_logprobs', (target) => {
  it('gives the log probabilities of the given tokens after the sampled rows and touches nothing else', () =>
    target.check(
      fc.tuple(
        size(target.simulated ? 300 : 3000),
        fc.array(fc.integer({ min: 0, max: 24 }), { minLength: 1, maxLength: 4 }),
        fc.nat(3),
        fc.constantFrom(20, 1, 5),
        fills('normal', 'zeros', 'ones', 'denormal', 'infinite'),
        seed,
      ),
      async ([vocabulary, tops, before, topMax, kind, start]) => {
        const random = new Random(start);
        const draws = Math.min(before, tops.length - 1);
        const rows = tops.map(() => {
          const row = fill(kind, vocabulary, random);
          row[random.below(vocabulary)] = 1;
          return row;
        });
        const targets = tops.map((top) => [random.below(vocabulary), top] as const);
        await checkRows(target, rows, draws, targets, topMax);
      },
    ));

  it('lists zeros of both signs by id', () => checkRows(target, [Float32Array.of(-0, 0, -1, -0, 0)], 0, [[1, 5]], 20));

  it.runIf(!target.simulated)('handles a vocabulary of 152,064', async () => {
    const random = new Random(2);
    const rows = [fill('normal', 152_064, random), fill('normal', 152_064, random)];
    await checkRows(
      target,
      rows,
      0,
      [
        [77, 20],
        [152_063, 3],
      ],
      20,
    );
  });
});
