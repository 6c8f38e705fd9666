/** x * factor, rounded to f32 as the kernel rounds before it stores. */
export function scale(x: ArrayLike<number>, factor: number): Float64Array {
  return Float64Array.from(x, (value) => Math.fround(value * factor));
}
