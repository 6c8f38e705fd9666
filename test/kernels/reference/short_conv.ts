import type { Reference } from '../support/compare.js';
import type { StateSlice } from './delta_net.js';

/**
 * Gated convolution of rows of b, c and x, `[rows, 3, columns]`, with the products that were kept, `[states, taps - 1, columns]`,
 * and those of replay rows, `[replay_rows, columns]`.
 * @returns the rows, and what is kept after them
 */
export function shortConv(
  gates: ArrayLike<number>,
  weight: ArrayLike<number>,
  kept: ArrayLike<number>,
  slices: readonly StateSlice[],
  replay: ArrayLike<number>,
  { columns, taps }: { readonly columns: number; readonly taps: number },
): { readonly y: Reference; readonly kept: Float64Array } {
  const rows = gates.length / (3 * columns);
  const [values, magnitudes] = [new Float64Array(rows * columns), new Float64Array(rows * columns)];
  const next = Float64Array.from(kept);
  for (const { first, rows: count, source, target, isBefore, replayed, replayRow } of slices) {
    const at = (place: number, column: number): number => {
      const from = (first + place) * 3 * columns;
      if (place >= 0) return gates[from + column]! * gates[from + 2 * columns + column]!;
      const back = place + replayed;
      if (back >= 0) return replay[(replayRow + back) * columns + column]!;
      return source === undefined ? 0 : kept[(source * (taps - 1) + taps - 1 + back) * columns + column]!;
    };
    for (let row = 0; row < count; row++) {
      for (let column = 0; column < columns; column++) {
        const gate = gates[((first + row) * 3 + 1) * columns + column]!;
        const i = (first + row) * columns + column;
        for (let j = 0; j < taps; j++) {
          const product = gate * at(row - taps + 1 + j, column) * weight[column * taps + j]!;
          values[i]! += product;
          magnitudes[i]! += Math.abs(product);
        }
      }
    }
    if (target === undefined) continue;
    const end = isBefore ? 0 : count;
    for (let j = 0; j < taps - 1; j++)
      for (let column = 0; column < columns; column++)
        next[(target * (taps - 1) + j) * columns + column] = at(end - taps + 1 + j, column);
  }
  return { y: { values, magnitudes }, kept: next };
}
