import {
  type Completion,
  FinishReason,
  type GenerateComplete,
  type StopMatch,
  type TokenLogprobs,
  type Usage,
} from '../../shared/generated/rocmforge/v1/inference.js';
import type { AnswerParts } from '../request/answer.js';
import type { Finish } from '../request/completion.js';
import type { CompletionCounts, PromptProbability, TokenProbability } from '../request/generation.js';

/** The wire form of a token's probabilities. */
export function tokenLogprobs(token: TokenProbability): TokenLogprobs {
  return {
    tokenId: token.tokenId,
    logprob: token.logprob,
    rank: token.rank,
    top: token.topIds.map((tokenId, i) => ({ tokenId, logprob: token.topLogprobs[i] as number, rank: undefined })),
    given: (token.logprobTokenIds ?? []).map((tokenId, i) => {
      return { tokenId, logprob: token.chosenLogprobs[i] as number, rank: token.chosenRanks[i] };
    }),
  };
}

/** The wire form of a prompt token's probabilities. */
export function promptLogprobs(token: PromptProbability): TokenLogprobs {
  return 'logprob' in token
    ? tokenLogprobs(token)
    : { tokenId: token.tokenId, logprob: undefined, rank: undefined, top: [], given: [] };
}

/** The wire form of why a completion ended. */
export function finishReason(finish: Finish): FinishReason {
  switch (finish.reason) {
    case 'stop':
      return FinishReason.STOP;
    case 'tool_calls':
      return FinishReason.TOOL_CALLS;
    case 'length':
      return FinishReason.LENGTH;
    case 'time_limit':
      return FinishReason.TIME_LIMIT;
  }
}

/** The wire form of what ended a completion; absent when nothing matched. */
export function stopMatch(finish: Finish): StopMatch | undefined {
  if ('stopString' in finish) return { match: { $case: 'stopString', value: finish.stopString } };
  return 'tokenId' in finish ? { match: { $case: 'tokenId', value: finish.tokenId } } : undefined;
}

/** The wire form of a completion's end. */
export function generateComplete(index: number, finish: Finish, counts: CompletionCounts): GenerateComplete {
  return {
    index,
    finishReason: finishReason(finish),
    stopMatch: stopMatch(finish),
    usage: usageOf(counts),
    seed: counts.seed,
    promptText: '',
  };
}

/** The wire form of what a completion took. */
export function usageOf({ seed, queuedUs, prefillUs, decodeUs, ...counts }: CompletionCounts): Usage {
  return { ...counts, queuedUs: BigInt(queuedUs), prefillUs: BigInt(prefillUs), decodeUs: BigInt(decodeUs) };
}

/** Usage of several completions of one prompt. */
export function together(one: Usage, other: Usage): Usage {
  const longer = (a: bigint, b: bigint) => (a > b ? a : b);
  return {
    promptTokens: other.promptTokens,
    cachedTokens: Math.max(one.cachedTokens, other.cachedTokens),
    completionTokens: one.completionTokens + other.completionTokens,
    reasoningTokens: one.reasoningTokens + other.reasoningTokens,
    proposedTokens: one.proposedTokens + other.proposedTokens,
    acceptedTokens: one.acceptedTokens + other.acceptedTokens,
    predictedTokens: one.predictedTokens + other.predictedTokens,
    acceptedPredictedTokens: one.acceptedPredictedTokens + other.acceptedPredictedTokens,
    queuedUs: longer(one.queuedUs, other.queuedUs),
    prefillUs: longer(one.prefillUs, other.prefillUs),
    decodeUs: longer(one.decodeUs, other.decodeUs),
  };
}

/** Adds what came beside the text to a whole completion. */
export function addParts(completion: Completion, { reasoning, toolCalls }: AnswerParts): void {
  completion.reasoning += reasoning;
  for (const { index, id, name, argumentsJson } of toolCalls) {
    const call = completion.toolCalls[index];
    if (call === undefined) completion.toolCalls[index] = { id, name, argumentsJson };
    else call.argumentsJson += argumentsJson;
  }
}

/** Bytes of what came beside the text. */
export function bytesBeside(parts: AnswerParts | undefined): number {
  if (parts === undefined) return 0;
  const { reasoning, toolCalls } = parts;
  return toolCalls.reduce(
    (sum, { name, argumentsJson }) => sum + Buffer.byteLength(name) + Buffer.byteLength(argumentsJson),
    Buffer.byteLength(reasoning),
  );
}
