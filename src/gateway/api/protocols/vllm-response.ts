import { RocmForgeError } from '../../../shared/errors.js';
import {
  FinishReason,
  type GenerateChunk,
  type GenerateComplete,
  type TokenLogprobs,
} from '../../../shared/generated/rocmforge/v1/inference.js';
import {
  type CandidateTokenInfo,
  FinishInfo,
  FinishInfo_FinishReason,
  GenerateResponse,
  PromptInfo,
  SequenceOutput,
} from '../../../shared/generated/vllm/inference.js';
import { MAX_ANSWER_TEXT_BYTES } from '../../request/limits.js';
import type { ProtocolResponse } from './translated-stream.js';
import type { VllmOptions } from './vllm-inference.js';

/** A generation in messages of `vllm.Inference`: what the prompt was, then each completion's text and its end. */
export class VllmResponse implements ProtocolResponse {
  private prompt: PromptInfo | undefined;
  /** Tokens of each completion so far; absent when it has ended. */
  private readonly tokens: (number | undefined)[] = [0];

  constructor(
    private readonly options: VllmOptions,
    private readonly write: (message: GenerateResponse) => void,
  ) {}

  begin(promptIds: Uint32Array): void {
    // Not before: until a request is checked, how many it asks for is anything.
    for (let index = 1; index < this.options.n; index++) this.tokens.push(0);
    const tokenIds = this.options.promptTokenIds ? Array.from(promptIds) : [];
    this.prompt = PromptInfo.create({ numPromptTokens: promptIds.length, tokenIds });
  }

  chunk({ index, tokenIds, text, logprobs, promptLogprobs }: GenerateChunk): void {
    // The first of a prompt comes behind nothing, and has zeros.
    if (this.prompt !== undefined) Object.assign(this.prompt, probabilitiesOf(promptLogprobs));
    this.tokens[index] = (this.tokens[index] ?? 0) + tokenIds.length;
    this.put({
      index,
      text: this.options.outputText ? text : '',
      numTokens: tokenIds.length,
      tokenIds: this.options.outputTokenIds ? tokenIds : [],
      ...(this.options.outputLogprobs ? probabilitiesOf(logprobs) : undefined),
      candidateTokens: candidatesOf(logprobs),
    });
  }

  complete({ index, finishReason, stopMatch, usage }: GenerateComplete): void {
    this.tokens[index] = undefined;
    const { STOP, LENGTH } = FinishInfo_FinishReason;
    this.put({
      index,
      finishInfo: FinishInfo.create({
        numOutputTokens: usage?.completionTokens ?? 0,
        finishReason: finishReason === FinishReason.STOP ? STOP : LENGTH,
        stopReason: this.stopReason(stopMatch),
        numCachedTokens: usage?.cachedTokens ?? 0,
      }),
    });
  }

  aborted(): void {
    this.tokens.forEach((tokens, index) => {
      if (tokens === undefined) return;
      const finishReason = FinishInfo_FinishReason.ABORTED;
      this.put({ index, finishInfo: FinishInfo.create({ numOutputTokens: tokens, finishReason }) });
    });
  }

  private put(outputs: Partial<SequenceOutput>): void {
    if (this.prompt !== undefined) {
      this.write(GenerateResponse.create({ promptInfo: this.prompt }));
      this.prompt = undefined;
    }
    this.write(GenerateResponse.create({ outputs: SequenceOutput.create(outputs) }));
  }

  private stopReason(stopMatch: GenerateComplete['stopMatch']): FinishInfo['stopReason'] {
    const match = stopMatch?.match;
    if (match?.$case !== 'tokenId') return match;
    const isAsked = this.options.stopTokenIds.includes(match.value);
    return { $case: isAsked ? 'stopTokenId' : 'eosTokenId', value: match.value };
  }
}

/** Log probabilities and ranks of tokens, as lists. */
function probabilitiesOf(tokens: readonly TokenLogprobs[]): { readonly logprobs: number[]; readonly ranks: number[] } {
  return {
    logprobs: tokens.map(({ logprob }) => logprob ?? 0),
    ranks: tokens.map(({ rank }) => rank ?? 0),
  };
}

/** Log probabilities and ranks of the given, or of the likeliest other tokens at each place, where there are any. */
function candidatesOf(tokens: readonly TokenLogprobs[]): CandidateTokenInfo[] {
  if (tokens.every(({ given, top }) => given.length === 0 && top.length === 0)) return [];
  return tokens.map(({ tokenId: sampled, given, top }) => ({
    tokens: [
      ...given.map(({ tokenId, logprob, rank = 0 }) => ({ id: tokenId, logprob, rank })),
      ...top
        .map(({ tokenId, logprob }, i) => ({ id: tokenId, logprob, rank: i + 1 }))
        .filter(({ id }) => id !== sampled),
    ],
  }));
}

/** All messages of one completion as one, for the call that answers once. */
export class VllmGathered {
  readonly response = GenerateResponse.create({ outputs: SequenceOutput.create() });
  private textBytes = 0;

  /** @throws RocmForgeError `MESSAGE_TOO_LARGE` */
  take({ promptInfo, outputs }: GenerateResponse): void {
    if (promptInfo !== undefined) this.response.promptInfo = promptInfo;
    const all = this.response.outputs;
    if (outputs === undefined || all === undefined) return;
    this.textBytes += Buffer.byteLength(outputs.text);
    if (this.textBytes > MAX_ANSWER_TEXT_BYTES) {
      const message = `the text has more than the ${MAX_ANSWER_TEXT_BYTES} bytes of one answer; stream it`;
      throw new RocmForgeError('MESSAGE_TOO_LARGE', message);
    }
    all.text += outputs.text;
    all.numTokens += outputs.numTokens;
    all.tokenIds.push(...outputs.tokenIds);
    all.logprobs.push(...outputs.logprobs);
    all.ranks.push(...outputs.ranks);
    all.candidateTokens.push(...outputs.candidateTokens);
    all.finishInfo ??= outputs.finishInfo;
  }
}
