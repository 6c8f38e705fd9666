/** y[h][t] = the first `columns` of x[t][h], x `[rows, heads, width]`. */
export function headsFirst(x: Float32Array, heads: number, width: number, columns: number): Float32Array {
  const rows = x.length / heads / width;
  const y = new Float32Array(heads * rows * columns);
  for (let row = 0; row < rows; row++) {
    for (let head = 0; head < heads; head++) {
      const from = (row * heads + head) * width;
      y.set(x.subarray(from, from + columns), (head * rows + row) * columns);
    }
  }
  return y;
}
