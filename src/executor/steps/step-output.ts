import type { SlotOutput } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import { OUTPUT_NON_FINITE, OUTPUT_WORDS, TOP_LOGPROBS_MAX } from '../kernels/index.js';

/** Results of a step, `[max_sequences, OUTPUT_WORDS]`, as integers and as floats. */
export interface StepOutput {
  readonly output: Int32Array;
  readonly outputFloats: Float32Array;
}

/** Reads what a step has left of one of its sampled rows. */
export function readOutput(
  step: StepOutput,
  index: number,
  slot: number,
  /** 0: none; n + 1: the token's and those of the n likeliest. */
  logprobs: number,
  /** Tokens that the slot names, whose log probabilities come instead of the likeliest's. */
  given = 0,
): SlotOutput {
  const base = index * OUTPUT_WORDS;
  const token = step.output[base] as number;
  const logprob = logprobs > 0 ? (step.outputFloats[base + 1] as number) : 0;
  // A prompt's row draws no token: its log probability is the result.
  const nonFinite = (token & OUTPUT_NON_FINITE) !== 0 || Number.isNaN(logprob);
  const top = nonFinite ? 0 : Math.max(0, logprobs - 1);
  const ids = base + 2;
  const likeliest = ids + TOP_LOGPROBS_MAX;
  return {
    slot,
    tokenId: token & ~OUTPUT_NON_FINITE,
    logprob: nonFinite ? 0 : logprob,
    rank: logprobs > 0 && !nonFinite ? (step.output[likeliest + TOP_LOGPROBS_MAX] as number) : 0,
    topIds: Array.from(step.output.subarray(ids, ids + top)),
    topLogprobs: Array.from(step.outputFloats.subarray(likeliest, likeliest + top)),
    chosenLogprobs: nonFinite ? [] : Array.from(step.outputFloats.subarray(likeliest, likeliest + given)),
    chosenRanks: nonFinite ? [] : Array.from(step.output.subarray(ids, ids + given)),
    nonFinite,
    late: false,
    predictedIds: [],
  };
}
