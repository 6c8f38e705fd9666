/** y[s] = x[index[s]]; x [rows, width]. */
export function gatherRows(x: ArrayLike<number>, index: ArrayLike<number>, width: number): Float64Array {
  const y = new Float64Array(index.length * width);
  for (let s = 0; s < index.length; s++) {
    for (let i = 0; i < width; i++) y[s * width + i] = x[index[s]! * width + i]!;
  }
  return y;
}
