/** max(y, 0)² */
export const reluSquared = (y: ArrayLike<number>): Float64Array =>
  Float64Array.from(y, (value) => (value < 0 ? 0 : value * value));
