/** e^(x - max x) / sum e^(x - max x), for each row of x [rows, columns]; a row of -inf gives 0. */
export function softmax(x: ArrayLike<number>, columns: number): Float64Array {
  const y = new Float64Array(x.length);
  for (let row = 0; row < x.length; row += columns) {
    let largest = Number.NEGATIVE_INFINITY;
    for (let i = row; i < row + columns; i++) if (x[i]! > largest) largest = x[i]!;
    let sum = 0;
    for (let i = row; i < row + columns; i++) sum += Math.exp(x[i]! - largest);
    const masked = Array.from({ length: columns }, (_, i) => x[row + i]).every((v) => v === Number.NEGATIVE_INFINITY);
    for (let i = row; i < row + columns; i++) y[i] = masked ? 0 : Math.exp(x[i]! - largest) / sum;
  }
  return y;
}
