import type { Reference } from '../support/compare.js';
import { matmul } from './matmul.js';

/** y[t][n] + sum_k weight[n][k] * x[t][k]; y [rows, out] is left out when nothing is added to. */
export function matmulTile(
  weight: ArrayLike<number>,
  x: ArrayLike<number>,
  out: number,
  inner: number,
  y?: ArrayLike<number>,
): Required<Reference> {
  const { values, magnitudes } = matmul(weight, x, out, inner);
  if (!y) return { values, magnitudes };
  return {
    values: values.map((value, i) => value + y[i]!),
    magnitudes: magnitudes.map((size, i) => size + Math.abs(y[i]!)),
  };
}
