/** y plus the parts in the order of their ranks, each addition rounded to f32; without y the parts alone. */
export function sumRanks(parts: readonly Float32Array[], y?: Float32Array): Float64Array {
  const [first, ...others] = parts as [Float32Array, ...Float32Array[]];
  return Float64Array.from(first, (own, i) => {
    const sum = others.reduce((total, part) => Math.fround(total + part[i]!), own);
    return y === undefined ? sum : Math.fround(y[i]! + sum);
  });
}
