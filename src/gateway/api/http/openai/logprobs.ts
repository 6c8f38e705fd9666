import type { TokenLogprobs } from '../../../../shared/generated/rocmforge/v1/inference.js';
import { Listed } from '../json-slices.js';
import type { AnswerFacts } from '../request.js';

/** Names of tokens. */
export type TokenNames = Pick<AnswerFacts, 'tokenText' | 'tokenBytes'>;

/** JSON has no infinity: what no float holds is the least that one does, as OpenAI has it. */
const LEAST_LOGPROB = -9999;
const finite = (logprob: number): number => Math.max(logprob, LEAST_LOGPROB);

/** Log probabilities of a chat's answer. */
export function chatLogprobs(tokens: readonly TokenLogprobs[], facts: TokenNames): unknown {
  const one = (id: number, logprob: number) => ({
    token: facts.tokenText(id),
    logprob: finite(logprob),
    bytes: [...facts.tokenBytes(id)],
  });
  const content = new Listed(tokens.length, (i) => {
    const { tokenId, logprob, top } = tokens[i] as TokenLogprobs;
    return { ...one(tokenId, logprob ?? 0), top_logprobs: top.map((likely) => one(likely.tokenId, likely.logprob)) };
  });
  return { content, refusal: null };
}

/** A token's text; of one that is a part of a character its bytes, as OpenAI names them, so that no two are the same. */
function nameOf(id: number, facts: TokenNames): string {
  const text = facts.tokenText(id);
  if (!text.includes('\ufffd')) return text;
  return `bytes:${[...facts.tokenBytes(id)].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')}`;
}

/**
 * Writes log probabilities of one completion as lists of the same length, in parts as its tokens come: where a token's text
 * begins is known from those before it, of which several may make one character.
 */
export class CompletionLogprobs {
  private readonly decoder = new TextDecoder();
  private offset = 0;

  constructor(private readonly facts: TokenNames) {}

  write(tokens: readonly TokenLogprobs[]): unknown {
    const { facts } = this;
    const at = (i: number) => tokens[i] as TokenLogprobs;
    const offsets = tokens.map(({ tokenId }) => {
      const { offset } = this;
      this.offset += this.decoder.decode(facts.tokenBytes(tokenId), { stream: true }).length;
      return offset;
    });
    return {
      tokens: new Listed(tokens.length, (i) => nameOf(at(i).tokenId, facts)),
      token_logprobs: tokens.map(({ logprob }) => (logprob === undefined ? null : finite(logprob))),
      top_logprobs: new Listed(tokens.length, (i) => {
        const { logprob, top } = at(i);
        if (logprob === undefined) return null;
        return Object.fromEntries(top.map((likely) => [nameOf(likely.tokenId, facts), finite(likely.logprob)]));
      }),
      text_offset: offsets,
    };
  }
}
