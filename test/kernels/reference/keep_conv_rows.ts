import type { KeptRows } from './keep_delta_rows.js';

/** `replay`, `[replay_rows, columns]`, with b * x of rows of `gates`, `[rows, 3, columns]`, in their places. */
export function keepConvRows(
  gates: ArrayLike<number>,
  kept: KeptRows,
  replay: ArrayLike<number>,
  columns: number,
): Float64Array {
  const next = Float64Array.from(replay);
  for (const [row, to] of kept)
    for (let i = 0; i < columns; i++)
      next[to * columns + i] = gates[3 * row * columns + i]! * gates[(3 * row + 2) * columns + i]!;
  return next;
}
