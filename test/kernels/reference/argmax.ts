/** The column of each row's largest element, the lower of equals; 0 where nothing exceeds -inf. */
export function argmax(x: ArrayLike<number>, columns: number): number[] {
  return Array.from({ length: x.length / columns }, (_, row) => {
    let best = 0;
    let largest = Number.NEGATIVE_INFINITY;
    for (let i = 0; i < columns; i++) {
      const value = x[row * columns + i]!;
      if (value > largest) [best, largest] = [i, value];
    }
    return best;
  });
}
