import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  logSoftmaxTop as contract,
  likeliestParts,
  logSoftmaxMerge,
  SAMPLE_PARTS,
} from '../../src/executor/kernels/index.js';
import { SlotWord } from '../../src/executor/model/slot-layout.js';
import { logSoftmax, logSoftmaxTop, rankOf } from './reference/log_softmax_top.js';
import { expectClose } from './support/compare.js';
import { onEachTarget, type Target } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

const UNTOUCHED = -9;

/** Asks for `wanted[i]` alternatives of row i (-1: nothing) and holds the whole output against the reference. */
async function checkRows(target: Target, rows: Float32Array[], wanted: number[], sampled: number[], top_max: number) {
  const vocabulary = rows[0]!.length;
  const slot_words = SlotWord.blockTable;
  const width = 3 + 2 * top_max;
  const slots = new Int32Array(rows.length * slot_words);
  const output = new Int32Array(rows.length * width).fill(UNTOUCHED);
  const logits = new Float32Array(rows.length * vocabulary);
  rows.forEach((row, i) => {
    slots[i * slot_words + SlotWord.logprobs] = wanted[i]! + 1;
    output[i * width] = sampled[i]!;
    logits.set(row, i * vocabulary);
  });
  const order = Int32Array.from(rows, (_, i) => i);
  const values = { logits, sample_row: order, row_slot: order, slots, slot_words, top_max, vocabulary };
  const dimensions = { samples: rows.length, tokens: rows.length, slot_count: rows.length };
  const result = await target.launch(contract, { ...values, output }, dimensions);
  // Many blocks' work, and the same bits.
  const room = new Int32Array(rows.length * SAMPLE_PARTS * top_max).fill(UNTOUCHED);
  const parts = await target.launch(likeliestParts, { ...values, likeliest: room }, dimensions);
  const merged = await target.launch(
    logSoftmaxMerge,
    { ...values, likeliest: parts.likeliest as Int32Array, output },
    dimensions,
  );
  expect(merged.output).toEqual(result.output);
  rows.forEach((row, i) => {
    const ids = (result.output as Int32Array).slice(i * width, (i + 1) * width);
    const floats = new Float32Array(ids.buffer);
    const count = Math.min(wanted[i]!, top_max, vocabulary);
    const expected = logSoftmaxTop(row, Math.max(0, count));
    const isSet = (word: number) =>
      word === 0 ||
      (wanted[i]! >= 0 &&
        (word === 1 || word === width - 1 || (word - 2 < top_max ? word - 2 < count : word - 2 - top_max < count)));
    for (let word = 0; word < width; word++) if (!isSet(word)) expect(ids[word]).toBe(UNTOUCHED);
    expect(ids[0]).toBe(sampled[i]);
    if (wanted[i]! < 0) return;
    expect([...ids.slice(2, 2 + count)]).toEqual(expected.ids);
    expect(ids[width - 1]).toBe(rankOf(row, sampled[i]!));
    const actual = [floats[1]!, ...floats.slice(2 + top_max, 2 + top_max + count)];
    const values = Float64Array.of(logSoftmax(row)[sampled[i]!]!, ...expected.logprobs);
    expectClose(contract, actual, { values }, {});
  });
}

onEachTarget('log_softmax_top', (target) => {
  it('gives the log probabilities that a slot asks for and touches nothing else', () =>
    target.check(
      fc.tuple(
        size(target.simulated ? 300 : 3000),
        fc.array(fc.integer({ min: -1, max: 24 }), { minLength: 1, maxLength: 4 }),
        fc.constantFrom(20, 1, 5),
        fills('normal', 'zeros', 'ones', 'denormal', 'infinite'),
        seed,
      ),
      async ([vocabulary, wanted, topMax, kind, start]) => {
        const random = new Random(start);
        const rows = wanted.map(() => {
          const row = fill(kind, vocabulary, random);
          row[random.below(vocabulary)] = 1;
          return row;
        });
        const sampled = rows.map(() => random.below(vocabulary));
        await checkRows(target, rows, wanted, sampled, topMax);
      },
    ));

  it('lists zeros of both signs by id', () => checkRows(target, [Float32Array.of(-0, 0, -1, -0, 0)], [5], [1], 20));

  it.runIf(!target.simulated)('handles a vocabulary of 152,064', async () => {
    const random = new Random(2);
    await checkRows(
      target,
      [fill('normal', 152_064, random), fill('normal', 152_064, random)],
      [20, 3],
      [77, 152_063],
      20,
    );
  });
});
