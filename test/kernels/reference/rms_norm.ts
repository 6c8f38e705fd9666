import { NORM_PART } from '../../../src/executor/kernels/index.js';

/** y = x / sqrt(mean(x²) + eps) * weight, for each row of x [rows, hidden]. */
export function rmsNorm(x: ArrayLike<number>, weight: ArrayLike<number>, hidden: number, eps: number): Float64Array {
  const y = new Float64Array(x.length);
  for (let row = 0; row < x.length; row += hidden) {
    let sum = 0;
    for (let i = 0; i < hidden; i++) sum += x[row + i]! * x[row + i]!;
    const scale = 1 / Math.sqrt(sum / hidden + eps);
    for (let i = 0; i < hidden; i++) y[row + i] = x[row + i]! * scale * weight[i]!;
  }
  return y;
}

/** The sums of the squares of each sixteen elements of a row, as GPUs add them up in f32: by halves. */
export function partsOfSquares(row: Float32Array): Float32Array {
  return Float32Array.from({ length: Math.ceil(row.length / NORM_PART) }, (_, part) => {
    let sums = Array.from({ length: NORM_PART }, (_, i) => {
      const value = row[part * NORM_PART + i] ?? 0;
      return Math.fround(value * value);
    });
    while (sums.length > 1) {
      const half = sums.length / 2;
      sums = sums.slice(0, half).map((sum, i) => Math.fround(sum + sums[i + half]!));
    }
    return sums[0]!;
  });
}
