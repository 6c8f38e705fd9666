import type { Reference } from '../support/compare.js';
import type { Weights } from './blocks.js';

/** y[t][n] = sum_k weight[n][k] * x[t][k] in float64; magnitudes are the sums of |scale · quant · x| and |minimum · x|. */
export function matmulQuantized(
  weight: Weights,
  x: ArrayLike<number>,
  out: number,
  inner: number,
): Required<Reference> {
  const rows = x.length / inner;
  const values = new Float64Array(rows * out);
  const magnitudes = new Float64Array(rows * out);
  for (let t = 0; t < rows; t++) {
    for (let n = 0; n < out; n++) {
      let [sum, size] = [0, 0];
      for (let k = 0; k < inner; k++) {
        const [product, minimum] = [weight.products[n * inner + k]!, weight.minimums[n * inner + k]!];
        sum += (product - minimum) * x[t * inner + k]!;
        size += (Math.abs(product) + Math.abs(minimum)) * Math.abs(x[t * inner + k]!);
      }
      values[t * out + n] = sum;
      magnitudes[t * out + n] = size;
    }
  }
  return { values, magnitudes };
}
