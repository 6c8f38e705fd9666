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

/** Some tokens of a vocabulary, none twice. */
function tokensOf(vocabulary: number, count: number, random: Random): number[] {
  return [...new Set(Array.from({ length: count }, () => random.below(vocabulary)))];
}

/**
 * Asks for `wanted[i]` alternatives of row i (-1: nothing), or for those that `named[i]` names, and holds the whole output
 * against the reference.
 */
async function checkRows(
  target: Target,
  rows: Float32Array[],
  wanted: number[],
  sampled: number[],
  top_max: number,
  named: number[][] = rows.map(() => []),
) {
  const vocabulary = rows[0]!.length;
  const slot_words = SlotWord.blockTable;
  const width = 3 + 2 * top_max;
  const slots = new Int32Array(rows.length * slot_words);
  const entries = 24;
  const biases = new Int32Array(rows.length * (1 + 2 * entries));
  const output = new Int32Array(rows.length * width).fill(UNTOUCHED);
  const logits = new Float32Array(rows.length * vocabulary);
  rows.forEach((row, i) => {
    slots[i * slot_words + SlotWord.logprobs] = wanted[i]! + 1;
    output[i * width] = sampled[i]!;
    logits.set(row, i * vocabulary);
    slots[i * slot_words + SlotWord.chosenLogprobs] = named[i]!.length;
    // Others are biased behind them.
    const pairs = [...named[i]!, 0].flatMap((id) => [id, 0]);
    biases.set([pairs.length / 2, ...pairs], i * (1 + 2 * entries));
  });
  const order = Int32Array.from(rows, (_, i) => i);
  const values = {
    logits,
    sample_row: order,
    row_slot: order,
    slots,
    slot_words,
    biases,
    entries,
    top_max,
    vocabulary,
  };
  const dimensions = { samples: rows.length, tokens: rows.length, slot_count: rows.length };
  const result = await target.launch(contract, { ...values, output }, dimensions);
  if (target.has(likeliestParts)) {
    // Many blocks' work, and the same bits.
    const room = new Int32Array(rows.length * SAMPLE_PARTS * top_max).fill(UNTOUCHED);
    const parts = await target.launch(likeliestParts, { ...values, likeliest: room }, dimensions);
    const merged = await target.launch(
      logSoftmaxMerge,
      { ...values, likeliest: parts.likeliest as Int32Array, output },
      dimensions,
    );
    expect(merged.output).toEqual(result.output);
  }
  rows.forEach((row, i) => {
    const ids = (result.output as Int32Array).slice(i * width, (i + 1) * width);
    const floats = new Float32Array(ids.buffer);
    const given = named[i]!;
    const count = given.length > 0 ? given.length : Math.min(wanted[i]!, top_max, vocabulary);
    const logprobs = logSoftmax(row);
    const expected =
      given.length > 0
        ? { ids: given.map((id) => rankOf(row, id)), logprobs: given.map((id) => logprobs[id]!) }
        : logSoftmaxTop(row, Math.max(0, count));
    const isSet = (word: number) =>
      word === 0 ||
      (wanted[i]! >= 0 &&
        (word === 1 || word === width - 1 || (word - 2 < top_max ? word - 2 < count : word - 2 - top_max < count)));
    for (let word = 0; word < width; word++) if (!isSet(word)) expect(ids[word]).toBe(UNTOUCHED);
    expect(ids[0]).toBe(sampled[i]);
    if (wanted[i]! < 0) return;
    // The same bits, whether it is sampled or named.
    if (given.length > 0) expect([ids[1], ids[width - 1]]).toEqual([ids[2 + top_max], ids[2]]);
    expect([...ids.slice(2, 2 + count)]).toEqual(expected.ids);
    expect(ids[width - 1]).toBe(rankOf(row, sampled[i]!));
    const actual = [floats[1]!, ...floats.slice(2 + top_max, 2 + top_max + count)];
    const values = Float64Array.of(logprobs[sampled[i]!]!, ...expected.logprobs);
    expectClose(contract, actual, { values }, {});
  });
  return result.output as Int32Array;
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

  it('gives log probabilities and ranks of the tokens that a slot names, each as if it had been sampled', () =>
    target.check(
      fc.tuple(
        size(target.simulated ? 300 : 3000),
        fc.array(fc.integer({ min: 1, max: 20 }), { minLength: 1, maxLength: 4 }),
        fills('normal', 'zeros', 'ones', 'denormal', 'infinite'),
        seed,
      ),
      async ([vocabulary, counts, kind, start]) => {
        const random = new Random(start);
        const rows = counts.map(() => {
          const row = fill(kind, vocabulary, random);
          row[random.below(vocabulary)] = 1;
          return row;
        });
        const named = counts.map((count) => tokensOf(vocabulary, count, random));
        await checkRows(
          target,
          rows,
          [0, 0, 0, 0].slice(0, rows.length),
          named.map(([first]) => first!),
          20,
          named,
        );
      },
    ));

  it('gives named tokens the same bits whatever else is in the step', async () => {
    const random = new Random(9);
    const rows = [1, 2, 3].map(() => fill('normal', 300, random));
    const named = rows.map(() => tokensOf(300, 6, random));
    const sampled = named.map(([first]) => first!);
    const together = await checkRows(target, rows, [0, 0, 0], sampled, 20, named);
    for (const i of [0, 1, 2]) {
      const alone = await checkRows(target, [rows[i]!], [0], [sampled[i]!], 20, [named[i]!]);
      expect(alone).toEqual(together.slice(i * alone.length, (i + 1) * alone.length));
    }
  });

  it('lists zeros of both signs by id', async () =>
    void (await checkRows(target, [Float32Array.of(-0, 0, -1, -0, 0)], [5], [1], 20)));

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
