import fc from 'fast-check';
import { NO_STATE } from '../../../src/executor/kernels/index.js';
import { sliceWords } from '../../../src/executor/model/slot-layout.js';
import type { StateSlice } from '../reference/delta_net.js';

/** Replay rows of each slice. */
const MOST_REPLAYED = 5;

/**
 * Slices that follow each other: each of states of its own, from the first of them, or from none, to the second. Some have draft
 * tokens, so that they write the state before them, or none; some replay rows.
 */
export const slices = (most: number, rows: number): fc.Arbitrary<readonly StateSlice[]> =>
  fc
    .array(
      fc.record({
        count: fc.integer({ min: 1, max: rows }),
        begins: fc.boolean(),
        swaps: fc.boolean(),
        written: fc.constantFrom('after', 'after', 'before', 'none'),
        replayed: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: MOST_REPLAYED })),
      }),
      { minLength: 1, maxLength: most },
    )
    .map((parts) => {
      let first = 0;
      return parts.map(({ count, begins, swaps, written, replayed }, i): StateSlice => {
        const [source, target] = swaps ? [2 * i + 1, 2 * i] : [2 * i, 2 * i + 1];
        const slice = {
          ...{ first, rows: count, source: begins ? undefined : source },
          ...{ target: written === 'none' ? undefined : target, isBefore: written !== 'after' },
          ...{ replayed: begins ? 0 : replayed, replayRow: i * MOST_REPLAYED },
        };
        first += count;
        return slice;
      });
    });

/** A slice of rows that are all kept. */
export interface PlainSlice extends StateSlice {
  readonly target: number;
}

/** The same without draft tokens, for layers that replay nothing. */
export const plainSlices = (most: number, rows: number): fc.Arbitrary<readonly PlainSlice[]> =>
  slices(most, rows).map((all) =>
    all.map((slice, i) => {
      const target = slice.target ?? (slice.source === 2 * i + 1 ? 2 * i : 2 * i + 1);
      return { ...slice, target, isBefore: false, replayed: 0 };
    }),
  );

/** Number of replay rows of slices. */
export const replayRowsOf = (of: readonly StateSlice[]): number => MOST_REPLAYED * of.length;

/** As kernels take them. */
export function sliceTables(of: readonly StateSlice[]): {
  readonly slices: Int32Array;
  readonly row_slice: Int32Array;
} {
  return {
    slices: Int32Array.from(
      of.flatMap(({ first, rows, source = NO_STATE, target = NO_STATE, isBefore, replayed, replayRow }) =>
        sliceWords(first, rows, { source, target, isBefore, replayed, replayRow }),
      ),
    ),
    row_slice: Int32Array.from(of.flatMap(({ rows }, i) => Array<number>(rows).fill(i))),
  };
}
