/** logits[token] + bias. */
export function logitBias(logits: ArrayLike<number>, biases: ReadonlyMap<number, number>): Float64Array {
  return Float64Array.from(logits, (logit, token) => logit + (biases.get(token) ?? 0));
}
