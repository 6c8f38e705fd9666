/** Sum of numbers; 0 of none. */
export function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/** @param q share of the values that are smaller, 0 to 1 @returns NaN of none */
export function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? Number.NaN;
}

/** The larger of the middle two where their number is even. */
export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** Tokens a second of a generation. @param tokenMs milliseconds of each token's step */
export function tokenRate(tokenMs: readonly number[]): number {
  return (1000 * tokenMs.length) / sum(tokenMs);
}
