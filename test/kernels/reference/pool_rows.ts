/** A slice of a sequence: its slot, the rows of x from `first` on, and how many rows of the sequence were before them. */
export interface PooledRows {
  readonly slot: number;
  readonly first: number;
  readonly count: number;
  readonly before: number;
  readonly as: 'mean' | 'first' | 'last';
  /** False: more of the sequence follows. */
  readonly ends: boolean;
}

/**
 * One row for each slice: the mean of its sequence so far, its first row or its last; of a mean that does not end NaN. `sums`,
 * `[slots, width]`, are those of each sequence so far, and become those with these slices.
 */
export function poolRows(
  x: ArrayLike<number>,
  slices: readonly PooledRows[],
  sums: Float64Array,
  width: number,
): Float64Array {
  const y = new Float64Array(slices.length * width).fill(Number.NaN);
  for (const [s, { slot, first, count, before, as, ends }] of slices.entries()) {
    for (let i = 0; i < width; i++) {
      const at = (row: number) => x[(first + row) * width + i]!;
      if (as !== 'mean') {
        y[s * width + i] = at(as === 'first' ? 0 : count - 1);
        continue;
      }
      let sum = before > 0 ? sums[slot * width + i]! : 0;
      for (let row = 0; row < count; row++) sum += at(row);
      if (ends) y[s * width + i] = Math.fround(sum / (before + count));
      else sums[slot * width + i] = sum;
    }
  }
  return y;
}
