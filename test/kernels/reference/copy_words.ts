/** y[i] = x[i]. */
export function copyWords(x: Int32Array): Int32Array {
  return x.slice();
}
