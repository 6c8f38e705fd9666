import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  sample as contract,
  minP as minPOf,
  OUTPUT_NON_FINITE,
  topK as topKOf,
  topP as topPOf,
} from '../../src/executor/kernels/index.js';
import { SlotWord } from '../../src/executor/model/slot-layout.js';
import { FIRST_SAMPLING_WORD } from '../../src/shared/sampling-schema.js';
import { gumbel, philox } from './reference/philox.js';
import { acceptableSamples, type Sampling, samplingWords } from './reference/sample.js';
import { onEachTarget, type Target } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

const GREEDY: Sampling = { temperature: 0, topK: 0, typicalP: 1, topP: 1, minP: 0, seed: [1, 2], sampleIndex: 0 };

interface Row {
  readonly logits: Float32Array;
  readonly sampling: Sampling;
  readonly position: number;
}

/** Samples each row in a slot of its own; @returns the tokens, which are also each slot's last token. */
async function sampleRows(target: Target, rows: readonly Row[]): Promise<number[]> {
  const vocabulary = rows[0]!.logits.length;
  const slot_words = SlotWord.blockTable + 1;
  const slots = new Int32Array(rows.length * slot_words);
  const logits = new Float32Array(rows.length * vocabulary);
  const last = rows.length - 1;
  rows.forEach(({ logits: row, sampling }, i) => {
    logits.set(row, i * vocabulary);
    // Rows lie in slots back to front, so that a row and its slot differ.
    const at = (last - i) * slot_words;
    slots.set(samplingWords(sampling), at + FIRST_SAMPLING_WORD);
  });
  const order = rows.map((_, i) => i);
  const result = await target.launch(
    contract,
    {
      logits,
      sample_row: Int32Array.from(order),
      row_position: Int32Array.from(rows, ({ position }) => position),
      row_slot: Int32Array.from(order, (i) => last - i),
      slots,
      output: new Int32Array(rows.length * 3).fill(-9),
      slot_words,
      output_words: 3,
      vocabulary,
    },
    { samples: rows.length, tokens: rows.length, slot_count: rows.length },
  );
  return order.map((i) => {
    const [token, ...rest] = result.output!.slice(i * 3, i * 3 + 3);
    expect(rest).toEqual([-9, -9]);
    expect(result.slots![(last - i) * slot_words + SlotWord.lastToken]).toBe(token! & ~OUTPUT_NON_FINITE);
    return token!;
  });
}

const samplings: fc.Arbitrary<Sampling> = fc.record({
  temperature: fc.constantFrom(0, 0.1, 0.7, 1, 2).map(Math.fround),
  topK: fc.constantFrom(0, 1, 2, 5, 40, 1000),
  typicalP: fc.constantFrom(1, 1, 1, 0.95, 0.5, 0.2, 0.01).map(Math.fround),
  topP: fc.constantFrom(1, 0.95, 0.5, 0.1, 0.001, 0).map(Math.fround),
  minP: fc.constantFrom(0, 0.05, 0.5, 1).map(Math.fround),
  seed: fc.tuple(fc.integer(), fc.integer()),
  sampleIndex: fc.nat(3),
});

const row = (logits: readonly number[], sampling: Partial<Sampling> = {}, position = 0): Row => ({
  logits: Float32Array.from(logits),
  sampling: { ...GREEDY, ...sampling },
  position,
});

describe('the Philox reference', () => {
  it('gives the known answers of the Random123 distribution', () => {
    const ones = 0xffffffff;
    expect(philox([0, 0, 0, 0], [0, 0])).toEqual([0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
    expect(philox([ones, ones, ones, ones], [ones, ones])).toEqual([0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]);
    expect(philox([0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344], [0xa4093822, 0x299f31d0])).toEqual([
      0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1,
    ]);
  });
});

onEachTarget('sample', (target) => {
  it('draws what the reference draws', () =>
    target.check(
      fc.tuple(
        size(target.simulated ? 300 : 3000),
        fc.array(fc.tuple(samplings, fc.nat(200_000)), { minLength: 1, maxLength: 4 }),
        fills('normal', 'wide', 'infinite'),
        seed,
      ),
      async ([vocabulary, settings, kind, start]) => {
        const random = new Random(start);
        const rows = settings.map(([sampling, position]) => {
          const logits = fill(kind, vocabulary, random);
          logits[random.below(vocabulary)] = 4.5;
          return { logits, sampling, position };
        });
        const tokens = await sampleRows(target, rows);
        rows.forEach(({ logits, sampling, position }, i) => {
          expect([...acceptableSamples(logits, position, sampling)]).toContain(tokens[i]);
        });
      },
    ));

  it('is greedy at temperature 0, ties to the lower id', async () => {
    const minus = Number.NEGATIVE_INFINITY;
    const rows = [row([1, 3, 3, 2]), row([-1, -2, minus, -1]), row([minus, minus, minus, -5]), row([0, -0, 0, -0])];
    expect(await sampleRows(target, rows)).toEqual([1, 0, 3, 0]);
  });

  it('tells of a row with a NaN, with +inf, or with nothing finite, whatever its parameters', async () => {
    const [plus, minus] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    const filters = [{}, { temperature: 1 }, { temperature: 1, topK: 1 }, { temperature: 1, topP: 0.1, minP: 0.5 }];
    const broken = [
      [Number.NaN, 2, 3, 1],
      [1, 2, 3, Number.NaN],
      [minus, minus, Number.NaN, minus],
      [plus, Number.NaN, 0, 0],
      [0, plus, 0, 1],
      [plus, plus, plus, plus],
      [minus, minus, minus, minus],
    ];
    const rows = broken.flatMap((logits) => filters.map((filter) => row(logits, filter)));
    expect(await sampleRows(target, rows)).toEqual(rows.map(() => OUTPUT_NON_FINITE));
    // Masked logits are no mistake.
    const masked = filters.map((filter) => row([minus, minus, 2, minus], filter));
    expect(await sampleRows(target, masked)).toEqual(masked.map(() => 2));
  });

  it('finds the one NaN of a long row, wherever it is', async () => {
    const rows = [0, 1, 255, 256, 700, 999].map((at) => {
      const logits = fill('normal', 1000, new Random(at));
      logits[at] = Number.NaN;
      return { ...row([]), logits };
    });
    expect(await sampleRows(target, rows)).toEqual(rows.map(() => OUTPUT_NON_FINITE));
  });

  it('is greedy at temperatures whose inverse is not a number to compute with, and draws from there on', async () => {
    const logits = [1, 3, 2.9, 2];
    const cold = [1e-45, 1e-40, 1e-38, 1e-20, 9.9e-7].flatMap((temperature) => [
      row(logits, { temperature }),
      row(logits, { temperature, topK: 2 }),
      row(logits, { temperature, topP: 0.5, minP: 0.1 }),
    ]);
    expect(await sampleRows(target, cold)).toEqual(cold.map(() => 1));
    const warm = [1e-6, 1e-3].map((temperature) => row(logits, { temperature: Math.fround(temperature) }));
    expect(await sampleRows(target, warm)).toEqual([1, 1]);
    const hot = Array.from({ length: 60 }, (_, i) => row(logits, { temperature: 3e38, seed: [i, i] }));
    expect(new Set(await sampleRows(target, hot)).size).toBe(4);
  });

  it('keeps exactly the k largest, zeros of both signs being equal', async () => {
    const rows = Array.from({ length: 40 }, (_, i) => row([-0, 0, 0, -1], { temperature: 1, topK: 2, seed: [i, 0] }));
    expect(new Set(await sampleRows(target, rows))).toEqual(new Set([0, 1]));
  });

  it('draws the same alone and among others, and anew at each position, sample and seed', async () => {
    const random = new Random(9);
    const logits = fill('normal', 200, random);
    const flat = { temperature: 4, minP: 0 };
    const rows = [
      ...Array.from({ length: 20 }, (_, position) => row([...logits], flat, position)),
      ...Array.from({ length: 20 }, (_, sampleIndex) => row([...logits], { ...flat, sampleIndex })),
      ...Array.from({ length: 20 }, (_, low) => row([...logits], { ...flat, seed: [low, 2] })),
      ...Array.from({ length: 20 }, (_, high) => row([...logits], { ...flat, seed: [1, high] })),
    ];
    const together = await sampleRows(target, rows);
    for (const [i, one] of [...rows.entries()].filter(([i]) => i % 19 === 0)) {
      expect(await sampleRows(target, [one])).toEqual([together[i]]);
    }
    for (let group = 0; group < 4; group++) {
      expect(new Set(together.slice(group * 20, group * 20 + 20)).size).toBeGreaterThan(10);
    }
  });

  if (target.has(topKOf)) {
    it('filters as top_k, top_p and min_p do one after the other', () =>
      target.check(
        fc.tuple(size(target.simulated ? 300 : 2000), samplings, seed),
        async ([vocabulary, sampling, start]) => {
          const logits = fill('normal', vocabulary, new Random(start));
          const { topK, topP, minP } = sampling;
          const shape = { vocabulary, samples: 1 };
          const first = await target.launch(topKOf, { logits, k: Int32Array.of(topK), vocabulary }, shape);
          const second = await target.launch(
            topPOf,
            { logits: first.logits as Float32Array, p: Float32Array.of(topP), vocabulary },
            shape,
          );
          const third = await target.launch(
            minPOf,
            { logits: second.logits as Float32Array, p: Float32Array.of(minP), vocabulary },
            shape,
          );
          const one = { ...sampling, temperature: 1, typicalP: 1 };
          const rest = { ...one, topK: 0, topP: 1, minP: 0 };
          const [fused] = await sampleRows(target, [{ logits, sampling: one, position: 3 }]);
          const unfused = { logits: third.logits as Float32Array, sampling: rest, position: 3 };
          expect(await sampleRows(target, [unfused])).toEqual([fused]);
        },
      ));
  }

  it.runIf(!target.simulated)('handles a vocabulary of 152,064', async () => {
    const random = new Random(21);
    const rows = [0, 0.8, 1].flatMap((temperature) =>
      [
        { topK: 50, topP: 0.9 },
        { topK: 0, topP: 0.95 },
        { topK: 0, topP: 1 },
      ].map((filter, i) => ({
        ...row([], { temperature: Math.fround(temperature), ...filter, topP: Math.fround(filter.topP) }, i),
        logits: fill('normal', 152_064, random),
      })),
    );
    const tokens = await sampleRows(target, rows);
    rows.forEach(({ logits, sampling, position }, i) => {
      expect([...acceptableSamples(logits, position, sampling)]).toContain(tokens[i]);
    });
  });

  const pearson = (counts: readonly number[], weights: readonly number[]) => {
    const draws = counts.reduce((sum, count) => sum + count, 0);
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    return weights.reduce((sum, weight, i) => {
      const expected = (draws * weight) / total;
      return weight === 0 ? sum : sum + (counts[i]! - expected) ** 2 / expected;
    }, 0);
  };
  /** Number of draws of each token, by as many seeds. */
  const countsOf = async (logits: readonly number[], sampling: Partial<Sampling>, draws: number) => {
    const rows = Array.from({ length: draws }, (_, i) =>
      row(logits, { ...sampling, seed: [i * 2_654_435_761, i], sampleIndex: i % 3 }, i % 50),
    );
    const counts = new Array<number>(logits.length).fill(0);
    for (const token of await sampleRows(target, rows)) counts[token]! += 1;
    return counts;
  };

  it.runIf(!target.simulated)('draws with the probabilities of the softmax', async () => {
    const logits = [0, 0.5, 1, 1.5, 2, -1, -2, 0.25];
    const temperature = Math.fround(0.8);
    const counts = await countsOf(logits, { temperature }, 20_000);
    // 7 degrees of freedom: 24.3 is passed by chance once in 1,000 sets of seeds; these are fixed.
    const chiSquare = pearson(
      counts,
      logits.map((logit) => Math.exp(logit / temperature)),
    );
    expect(chiSquare).toBeLessThan(24.3);
  });

  it.runIf(!target.simulated)('draws typical tokens with their probabilities, and no others', async () => {
    const logits = [4, 3, 2.8, 2.5, 2, 1.5, 1, 0.5, 0, -1, -2, -3];
    const weights = logits.map((logit) => Math.exp(logit));
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    const surprise = weights.map((weight) => -Math.log(weight / total));
    const entropy = weights.reduce((sum, weight, i) => sum + (weight / total) * surprise[i]!, 0);
    const order = logits
      .map((_, id) => id)
      .sort((a, b) => Math.abs(surprise[a]! - entropy) - Math.abs(surprise[b]! - entropy));
    let mass = 0;
    const kept = new Set<number>();
    for (const id of order) {
      kept.add(id);
      mass += weights[id]! / total;
      if (mass > 0.35) break;
    }
    // The likeliest is not among them: top_p would keep others.
    expect([...kept].sort()).toEqual([1, 2, 3]);
    const counts = await countsOf(logits, { temperature: 1, typicalP: Math.fround(0.35) }, 5000);
    expect(counts.flatMap((count, id) => (count > 0 ? [id] : []))).toEqual([1, 2, 3]);
    const wanted = weights.map((weight, id) => (kept.has(id) ? weight : 0));
    // 2 degrees of freedom: 13.8 is passed by chance once in 1,000 sets of seeds; these are fixed.
    expect(pearson(counts, wanted)).toBeLessThan(13.8);
  });

  it('keeps, of tokens that are as typical as each other, those of the lower ids', async () => {
    const seeds = Array.from({ length: 60 }, (_, i) => [i, 7] as const);
    const drawn = async (logits: readonly number[], sampling: Partial<Sampling>) =>
      new Set(
        await sampleRows(
          target,
          seeds.map((pair) => row(logits, { temperature: 1, ...sampling, seed: pair })),
        ),
      );
    expect(await drawn([1, 1, 1, 1], { typicalP: Math.fround(0.3) })).toEqual(new Set([0, 1]));
    // As much as p is not more than p.
    expect(await drawn([1, 1, 1, 1], { typicalP: 0.5 })).toEqual(new Set([0, 1, 2]));
    expect(await drawn([1, 1, 1, 1], { typicalP: 0 })).toEqual(new Set([0]));
    // Among what top_k has left, and min_p is a share of the likeliest that is left.
    expect(await drawn([1, 1, 1, 1], { typicalP: 0.5, topK: 2 })).toEqual(new Set([0, 1]));
    const uneven = [4, 3, 2.8, 2.5, 2, 1.5, 1, 0.5, 0, -1, -2, -3];
    expect(await drawn(uneven, { typicalP: Math.fround(0.35), minP: 1 })).toEqual(new Set([1]));
    expect(await drawn(uneven, { typicalP: Math.fround(0.35), topP: 0.5 })).toEqual(new Set([1, 2]));
  });

  it('has Gumbel noise that is finite for every word', () => {
    expect(Number.isFinite(gumbel(0)) && Number.isFinite(gumbel(0xffffffff))).toBe(true);
  });
});
