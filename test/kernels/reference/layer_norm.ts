import type { Reference } from '../support/compare.js';

/** y = (x - mean(x)) / sqrt(mean((x - mean(x))²) + eps) * weight + bias, for each row of x [rows, hidden]. */
export function layerNorm(
  x: ArrayLike<number>,
  weight: ArrayLike<number>,
  bias: ArrayLike<number>,
  hidden: number,
  eps: number,
): Required<Reference> {
  const values = new Float64Array(x.length);
  const magnitudes = new Float64Array(x.length);
  for (let row = 0; row < x.length; row += hidden) {
    let [sum, absolute, squares] = [0, 0, 0];
    for (let i = 0; i < hidden; i++) {
      sum += x[row + i]!;
      absolute += Math.abs(x[row + i]!);
    }
    const mean = sum / hidden;
    for (let i = 0; i < hidden; i++) squares += (x[row + i]! - mean) ** 2;
    const deviation = Math.sqrt(squares / hidden + eps);
    for (let i = 0; i < hidden; i++) {
      const value = ((x[row + i]! - mean) / deviation) * weight[i]!;
      values[row + i] = value + bias[i]!;
      const spread = (Math.abs(x[row + i]!) + absolute / hidden) / deviation;
      magnitudes[row + i] = (Math.abs(weight[i]!) + Math.abs(value)) * spread + Math.abs(bias[i]!);
    }
  }
  return { values, magnitudes };
}
