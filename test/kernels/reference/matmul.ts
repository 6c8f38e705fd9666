import type { Reference } from '../support/compare.js';

/**
 * y[t][n] = sum_k weight[n][k] * x[t][k]; weight [out, in], x [rows, in]. Magnitudes are the sums of absolute products.
 */
export function matmul(
  weight: ArrayLike<number>,
  x: ArrayLike<number>,
  out: number,
  inner: number,
): Required<Reference> {
  const rows = x.length / inner;
  const values = new Float64Array(rows * out);
  const magnitudes = new Float64Array(rows * out);
  for (let t = 0; t < rows; t++) {
    for (let n = 0; n < out; n++) {
      let sum = 0;
      let size = 0;
      for (let k = 0; k < inner; k++) {
        const product = weight[n * inner + k]! * x[t * inner + k]!;
        sum += product;
        size += Math.abs(product);
      }
      values[t * out + n] = sum;
      magnitudes[t * out + n] = size;
    }
  }
  return { values, magnitudes };
}
