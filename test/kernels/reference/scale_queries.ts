/** q of each row times the factor of its position, one rounding; qkv is `[tokens, width]`, q its first `queries`. */
export function scaleQueries(
  qkv: Float32Array,
  factors: Float32Array,
  positions: Int32Array,
  width: number,
  queries: number,
): Float64Array {
  return Float64Array.from(qkv, (value, i) =>
    i % width < queries ? Math.fround(value * factors[positions[Math.floor(i / width)]!]!) : value,
  );
}
