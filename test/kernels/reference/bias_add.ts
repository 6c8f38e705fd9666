/** y[t][n] + bias[n]. */
export function biasAdd(y: ArrayLike<number>, bias: ArrayLike<number>): Float64Array {
  return Float64Array.from(y, (value, i) => value + bias[i % bias.length]!);
}
