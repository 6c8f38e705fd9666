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
