import type { TokenLogprobs } from '../../../../shared/generated/rocmforge/v1/inference.js';
import type { AnswerFacts } from '../request.js';

/** JSON has no infinity: what no float holds is the least that one does, as OpenAI has it. */
const LEAST_LOGPROB = -9999;
const finite = (logprob: number): number => Math.max(logprob, LEAST_LOGPROB);

/** Log probabilities of a chat's answer. */
export function chatLogprobs(tokens: readonly TokenLogprobs[], facts: AnswerFacts): unknown {
  const one = (id: number, logprob: number) => ({
    token: facts.tokenText(id),
    logprob: finite(logprob),
    bytes: [...facts.tokenBytes(id)],
  });
  const content = tokens.map(({ tokenId, logprob, top }) => ({
    ...one(tokenId, logprob ?? 0),
    top_logprobs: top.map((likely) => one(likely.tokenId, likely.logprob)),
  }));
  return { content, refusal: null };
}

/** Log probabilities of a completion: lists of the same length. @param textOffset characters before the first token */
export function completionLogprobs(tokens: readonly TokenLogprobs[], facts: AnswerFacts, textOffset: number): unknown {
  let offset = textOffset;
  const offsets = tokens.map(({ tokenId }) => {
    const at = offset;
    offset += facts.tokenText(tokenId).length;
    return at;
  });
  return {
    tokens: tokens.map(({ tokenId }) => facts.tokenText(tokenId)),
    token_logprobs: tokens.map(({ logprob }) => (logprob === undefined ? null : finite(logprob))),
    top_logprobs: tokens.map(({ logprob, top }) =>
      logprob === undefined
        ? null
        : Object.fromEntries(top.map((likely) => [facts.tokenText(likely.tokenId), finite(likely.logprob)])),
    ),
    text_offset: offsets,
  };
}
