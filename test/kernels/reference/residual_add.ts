/** x + y. */
export function residualAdd(x: ArrayLike<number>, y: ArrayLike<number>): Float64Array {
  return Float64Array.from(x, (value, i) => value + y[i]!);
}
