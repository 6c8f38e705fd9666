/** scores [rows, heads, columns] with `value` in each column past the row's position. */
export function mask(
  scores: ArrayLike<number>,
  positions: ArrayLike<number>,
  heads: number,
  columns: number,
  value: number,
): Float64Array {
  return Float64Array.from(scores, (score, i) =>
    i % columns > positions[Math.floor(i / (heads * columns))]! ? value : score,
  );
}
