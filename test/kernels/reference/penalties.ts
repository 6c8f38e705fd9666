/** One token a sequence holds, and how often it was generated; 0: it is in the prompt alone. */
export interface HeldToken {
  readonly token: number;
  readonly generated: number;
}

/** The logits after the repetition, frequency and presence penalties. */
export function penalties(
  logits: ArrayLike<number>,
  held: readonly HeldToken[],
  repetition: number,
  frequency: number,
  presence: number,
): Float64Array {
  const result = Float64Array.from(logits);
  for (const { token, generated } of held) {
    const value = logits[token]!;
    result[token] = value > 0 ? value / repetition : value * repetition;
    if (generated > 0) result[token]! -= frequency * generated + presence;
  }
  return result;
}

/** The tokens that a sequence holds when these are generated as well. */
export function withGenerated(held: readonly HeldToken[], tokens: readonly number[]): HeldToken[] {
  const counts = new Map(held.map(({ token, generated }) => [token, generated]));
  for (const token of tokens) counts.set(token, (counts.get(token) ?? 0) + 1);
  return [...counts].map(([token, generated]) => ({ token, generated }));
}
