/** Rows of a and of b, `[rows, columns]` each, side by side. */
export function joinRows(a: ArrayLike<number>, b: ArrayLike<number>, columns: number): Float64Array {
  const rows = a.length / columns;
  return Float64Array.from({ length: 2 * rows * columns }, (_, i) => {
    const [row, column] = [Math.floor(i / (2 * columns)), i % (2 * columns)];
    return (column < columns ? a[row * columns + column] : b[(row - 1) * columns + column])!;
  });
}
