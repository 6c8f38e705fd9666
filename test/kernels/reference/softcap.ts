/** cap · tanh(x / cap) */
export const softcap = (x: ArrayLike<number>, cap: number): Float64Array =>
  Float64Array.from(x, (value) => cap * Math.tanh(value / cap));
