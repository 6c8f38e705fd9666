import fc from 'fast-check';
import type { StateSlice } from '../reference/delta_net.js';

/** Slices that follow each other: each of states of its own, from the first of them, or from none, to the second. */
export const slices = (most: number, rows: number): fc.Arbitrary<readonly StateSlice[]> =>
  fc
    .array(fc.tuple(fc.integer({ min: 1, max: rows }), fc.boolean(), fc.boolean()), { minLength: 1, maxLength: most })
    .map((parts) => {
      let first = 0;
      return parts.map(([count, begins, swaps], i): StateSlice => {
        const [source, target] = swaps ? [2 * i + 1, 2 * i] : [2 * i, 2 * i + 1];
        const slice = { first, rows: count, source: begins ? undefined : source, target };
        first += count;
        return slice;
      });
    });

/** As kernels take them. */
export function sliceTables(of: readonly StateSlice[]): {
  readonly slices: Int32Array;
  readonly row_slice: Int32Array;
} {
  return {
    slices: Int32Array.from(of.flatMap(({ first, rows, source, target }) => [first, rows, source ?? -1, target])),
    row_slice: Int32Array.from(of.flatMap(({ rows }, i) => Array<number>(rows).fill(i))),
  };
}
