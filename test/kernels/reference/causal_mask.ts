import { mask } from './mask.js';

/** scores [rows, heads, columns] with `value` in each column > row + past. */
export function causalMask(
  scores: ArrayLike<number>,
  heads: number,
  columns: number,
  past: number,
  value: number,
): Float64Array {
  const rows = scores.length / (heads * columns);
  return mask(
    scores,
    Array.from({ length: rows }, (_, row) => row + past),
    heads,
    columns,
    value,
  );
}
