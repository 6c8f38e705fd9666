import { ranking } from './sample.js';

/** ln(softmax(logits)). */
export function logSoftmax(logits: ArrayLike<number>): Float64Array {
  let largest = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < logits.length; i++) largest = Math.max(largest, logits[i]!);
  let sum = 0;
  for (let i = 0; i < logits.length; i++) sum += Math.exp(logits[i]! - largest);
  return Float64Array.from(logits, (logit) => logit - largest - Math.log(sum));
}

/** Number of logits that are at least the token's. Source: `batched_count_greater_than` of vLLM, which counts equal ones, too. */
export function rankOf(logits: ArrayLike<number>, token: number): number {
  return Array.from(logits).filter((logit) => logit >= logits[token]!).length;
}

/** The `count` likeliest ids, likeliest first, and their log probabilities. */
export function logSoftmaxTop(logits: ArrayLike<number>, count: number): { ids: number[]; logprobs: number[] } {
  const ids = ranking(logits).slice(0, count);
  const logprobs = logSoftmax(logits);
  return { ids, logprobs: ids.map((id) => logprobs[id]!) };
}
