import { logSoftmax, logSoftmaxTop, rankOf } from './log_softmax_top.js';

/** A prompt row: the log probability and the rank of its next token, and the `count` likeliest tokens with theirs. */
export function promptLogprobs(
  logits: ArrayLike<number>,
  target: number,
  count: number,
): { logprob: number; rank: number; ids: number[]; logprobs: number[] } {
  return { logprob: logSoftmax(logits)[target]!, rank: rankOf(logits, target), ...logSoftmaxTop(logits, count) };
}
