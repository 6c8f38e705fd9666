/** scores [rows, heads, columns] with `value` in each column past the row's position, or `window` and more before it. */
export function mask(
  scores: ArrayLike<number>,
  positions: ArrayLike<number>,
  heads: number,
  columns: number,
  value: number,
  window = 0,
): Float64Array {
  return Float64Array.from(scores, (score, i) => {
    const [column, position] = [i % columns, positions[Math.floor(i / (heads * columns))]!];
    return column > position || (window > 0 && position - column >= window) ? value : score;
  });
}
