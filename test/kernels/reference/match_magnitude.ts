/** y · |x| / |y| of each row; rows of zeros stay. */
export function matchMagnitude(y: Float32Array, x: Float32Array, columns: number): Float64Array {
  const result = new Float64Array(y.length);
  const length = (row: Float32Array): number => Math.sqrt(row.reduce((sum, value) => sum + value * value, 0));
  for (let first = 0; first < y.length; first += columns) {
    const [own, wanted] = [y, x].map((rows) => length(rows.subarray(first, first + columns))) as [number, number];
    const factor = own === 0 ? 0 : wanted / own;
    for (let i = first; i < first + columns; i++) result[i] = y[i]! * factor;
  }
  return result;
}
