import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { COMBINED_SPLITS } from '../../src/executor/kernels/index.js';
import { countsOf, GraphBuckets, samplingMode } from '../../src/executor/load/graph-buckets.js';
import {
  COUNT_ADJUSTED,
  COUNT_COMBINED,
  COUNT_DRAWN,
  COUNT_DRAWS,
  COUNT_FILTERED,
  COUNT_GATHERED,
  COUNT_PARTED,
  COUNT_SAMPLES,
  COUNT_SINGLE_TOKEN,
  COUNT_SLICES,
  COUNT_SPLIT_ROWS,
  COUNT_SPLITS,
  COUNT_TILES,
  COUNT_TOKENS,
  COUNT_TOLD,
  STEP_COUNTS,
} from '../../src/executor/model/step-counts.js';

const buckets = (maxSequences: number, splits?: { rows: number; most: number }) =>
  new GraphBuckets({ maxSequences }, splits);

describe('the sizes of captured graphs', () => {
  it('are powers of two of rows and the most rows, where no context is split', () => {
    expect(
      buckets(12)
        .all()
        .map(({ rows, splits, mode }) => [rows, splits, mode]),
    ).toEqual([
      ...[1, 2, 4, 8].flatMap((rows) => ['largest', 'drawn', 'any'].map((mode) => [rows, 0, mode])),
      [12, 0, 'any'],
    ]);
    expect(buckets(1).all()).toHaveLength(3);
  });

  it('times powers of two of splits, for as many rows as are split', () => {
    const some = buckets(128, { rows: 64, most: 32 }).all();
    expect(some.filter(({ rows }) => rows === 64).map(({ splits }) => splits)).toEqual([1, 2, 4, 8, 16, 32]);
    expect(some.filter(({ rows }) => rows === 128)).toEqual([{ rows: 128, splits: 0, mode: 'any' }]);
    expect(some).toHaveLength((4 * 3 + 3) * 6 + 1);
  });

  it('are few: splits rise faster where they would be too many', () => {
    const counts = [
      { sequences: 64, context: 131_072 },
      { sequences: 256, context: 131_072 },
      { sequences: 64, context: 1 << 20 },
      { sequences: 64, context: 1 << 24 },
      { sequences: 4096, context: 1 << 24 },
    ].map(({ sequences, context }) => {
      const all = buckets(sequences, { rows: Math.min(64, sequences), most: context / 256 }).all();
      return `${sequences} sequences of ${context}: ${all.length} graphs`;
    });
    console.log(counts.join('\n'));
    for (const line of counts) expect(Number(/(\d+) graphs/.exec(line)![1])).toBeLessThanOrEqual(160);
  });

  it('hold every step that there may be, and each is one that was captured', () => {
    const limits = fc.record({
      sequences: fc.integer({ min: 1, max: 300 }),
      most: fc.integer({ min: 1, max: 5000 }),
      rows: fc.integer({ min: 1, max: 64 }),
    });
    fc.assert(
      fc.property(
        limits,
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.constantFrom(...(['largest', 'drawn', 'any'] as const)),
        ({ sequences, most, rows }, a, b, mode) => {
          const graphs = buckets(sequences, { rows, most });
          const [steps, splits] = [1 + Math.floor(a * (sequences - 1)), 1 + Math.floor(b * (most - 1))];
          const bucket = graphs.of(steps, splits, mode);
          expect(graphs.all()).toContainEqual(bucket);
          expect([mode, 'any']).toContain(bucket.mode);
          expect(bucket.rows).toBeGreaterThanOrEqual(steps);
          expect(bucket.rows).toBeLessThan(2 * steps);
          if (bucket.rows <= rows) expect(bucket.splits).toBeGreaterThanOrEqual(splits);
        },
      ),
    );
  });

  it('are counts of a step whose rows are all drawn from', () => {
    const counts = countsOf({ rows: 8, splits: 4, mode: 'largest' });
    for (const index of [COUNT_TOKENS, COUNT_SAMPLES, COUNT_DRAWS, COUNT_SLICES, COUNT_SPLIT_ROWS])
      expect(counts[index]).toBe(8);
    expect(counts[COUNT_SPLITS]).toBe(4);
    expect(counts[COUNT_TILES]).toBe(0);
    const tiled = countsOf({ rows: 8, splits: 0, mode: 'largest' });
    expect([COUNT_TILES, COUNT_SPLIT_ROWS, COUNT_SPLITS].map((index) => tiled[index])).toEqual([8, 0, 0]);
    // And the rows whose splits a launch combines.
    expect(counts.reduce((sum, count) => sum + count)).toBe(60);
  });

  it('are of what rows need beyond their largest logits, alone where rows are few', () => {
    const needed = [COUNT_ADJUSTED, COUNT_DRAWN, COUNT_FILTERED, COUNT_TOLD];
    const step = (...indices: number[]): Int32Array => {
      const counts = new Int32Array(STEP_COUNTS);
      for (const index of indices) counts[index] = 1;
      return counts;
    };
    expect(samplingMode(step())).toBe('largest');
    expect(samplingMode(step(COUNT_DRAWN))).toBe('drawn');
    expect(samplingMode(step(COUNT_DRAWN, COUNT_FILTERED))).toBe('drawn');
    expect(samplingMode(step(COUNT_TOLD))).toBe('any');
    expect(samplingMode(step(COUNT_DRAWN, COUNT_ADJUSTED))).toBe('any');
    fc.assert(
      fc.property(fc.subarray(needed), fc.integer({ min: 1, max: 300 }), (some, rows) => {
        const counts = countsOf(buckets(300).of(rows, 0, samplingMode(step(...some))));
        for (const index of some) expect(counts[index]).toBe(1);
      }),
    );
    expect(needed.map((index) => countsOf(buckets(300).of(9, 0, 'largest'))[index])).toEqual([1, 1, 1, 1]);
  });

  it('tell the row that its last blocks combine from those that a launch does', () => {
    for (const [rows, splits, combined, parted] of [
      [1, 1, 1, 0],
      [1, COMBINED_SPLITS, 1, 0],
      [1, COMBINED_SPLITS + 1, 0, 1],
      [2, 1, 0, 2],
      [2, 0, 0, 0],
    ] as const) {
      const counts = countsOf({ rows, splits, mode: 'any' });
      expect([counts[COUNT_COMBINED], counts[COUNT_PARTED]]).toEqual([combined, parted]);
    }
  });

  it('tell the step whose only row is sampled from all others', () => {
    for (const [rows, alone, gathered] of [
      [1, 1, 0],
      [2, 0, 2],
    ] as const) {
      const counts = countsOf({ rows, splits: 0, mode: 'any' });
      expect([counts[COUNT_SINGLE_TOKEN], counts[COUNT_GATHERED]]).toEqual([alone, gathered]);
    }
  });
});
