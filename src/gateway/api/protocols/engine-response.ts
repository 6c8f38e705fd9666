import { RocmForgeError } from '../../../shared/errors.js';
import {
  FinishReason,
  type GenerateChunk,
  type GenerateComplete as OurComplete,
  type TokenLogprobs,
} from '../../../shared/generated/rocmforge/v1/inference.js';
import {
  GenerateComplete,
  type GenerateResponse,
  GenerateStreamChunk,
  type InputLogProbs,
  type OutputLogProbs,
  type TopLogProbs,
} from '../../../shared/generated/vllm/grpc/engine/vllm_engine.js';
import { MAX_LOGPROBS_OF_MESSAGE } from '../../request/limits.js';
import type { ProtocolResponse } from './translated-stream.js';
import type { EngineOptions } from './vllm-engine.js';

/** State of one completion. */
interface Completion {
  readonly ids: number[];
  /** Those that no chunk has had. */
  readonly logprobs: TokenLogprobs[];
  hasEnded: boolean;
}

const newCompletion = (): Completion => ({ ids: [], logprobs: [], hasEnded: false });

/**
 * A generation in messages of `vllm.grpc.engine.VllmEngine`. Chunks have the tokens since the last one, by which SMG's
 * router counts them (model_gateway/src/routers/grpc/common/response_formatting.rs); a complete has all ids, as its proto
 * says, and log probabilities where no chunks have had them.
 */
export class EngineResponse implements ProtocolResponse {
  private readonly completions: Completion[] = [newCompletion()];
  private promptTokens = 0;
  private promptLogprobs: readonly TokenLogprobs[] = [];
  private heldLogprobs = 0;

  constructor(
    private readonly options: EngineOptions,
    private readonly write: (message: GenerateResponse) => void,
  ) {}

  begin(promptIds: Uint32Array): void {
    // Not before: until a request is checked, how many it asks for is anything.
    while (this.completions.length < this.options.n) this.completions.push(newCompletion());
    this.promptTokens = promptIds.length;
  }

  chunk({ index, tokenIds, logprobs, promptLogprobs }: GenerateChunk): void {
    const completion = this.completions[index];
    if (completion === undefined) return;
    completion.ids.push(...tokenIds);
    if (this.options.isStreamed) {
      const chunk = GenerateStreamChunk.create({
        index,
        tokenIds,
        promptTokens: this.promptTokens,
        completionTokens: tokenIds.length,
        outputLogprobs: outputLogprobs(logprobs),
        inputLogprobs: inputLogprobs(promptLogprobs),
      });
      this.write({ response: { $case: 'chunk', value: chunk } });
      return;
    }
    if (promptLogprobs.length > 0) this.promptLogprobs = promptLogprobs;
    for (const { top } of logprobs) this.heldLogprobs += 1 + top.length;
    if (this.heldLogprobs > MAX_LOGPROBS_OF_MESSAGE) {
      const message = `the answer has more than the ${MAX_LOGPROBS_OF_MESSAGE} log probabilities of one answer; stream it`;
      throw new RocmForgeError('MESSAGE_TOO_LARGE', message);
    }
    completion.logprobs.push(...logprobs);
  }

  complete({ index, finishReason, stopMatch, usage }: OurComplete): void {
    const isStop = finishReason === FinishReason.STOP;
    const complete = this.end(index, isStop ? 'stop' : 'length');
    complete.completionTokens = usage?.completionTokens ?? 0;
    complete.cachedTokens = usage?.cachedTokens ?? 0;
    complete.matchedStop = this.matchedStop(stopMatch);
    this.write({ response: { $case: 'complete', value: complete } });
  }

  aborted(): void {
    this.completions.forEach(({ hasEnded }, index) => {
      if (!hasEnded) this.write({ response: { $case: 'complete', value: this.end(index, 'abort') } });
    });
  }

  private end(index: number, finishReason: string): GenerateComplete {
    const completion = this.completions[index];
    if (completion !== undefined) completion.hasEnded = true;
    const ids = completion?.ids ?? [];
    return GenerateComplete.create({
      index,
      finishReason,
      outputIds: ids,
      promptTokens: this.promptTokens,
      completionTokens: ids.length,
      outputLogprobs: outputLogprobs(completion?.logprobs ?? []),
      inputLogprobs: index === 0 ? inputLogprobs(this.promptLogprobs) : undefined,
    });
  }

  /** As of vLLM, a token that ends any text of the model's is no match. */
  private matchedStop(stopMatch: OurComplete['stopMatch']): GenerateComplete['matchedStop'] {
    const match = stopMatch?.match;
    if (match?.$case === 'stopString') return { $case: 'matchedStopStr', value: match.value };
    if (match === undefined || !this.options.stopTokenIds.includes(match.value)) return undefined;
    return { $case: 'matchedTokenId', value: match.value };
  }
}

function outputLogprobs(tokens: readonly TokenLogprobs[]): OutputLogProbs | undefined {
  if (tokens.length === 0) return undefined;
  return {
    tokenLogprobs: tokens.map(({ logprob = 0 }) => logprob),
    tokenIds: tokens.map(({ tokenId }) => tokenId),
    topLogprobs: topLogprobs(tokens),
  };
}

function inputLogprobs(tokens: readonly TokenLogprobs[]): InputLogProbs | undefined {
  if (tokens.length === 0) return undefined;
  return {
    tokenLogprobs: tokens.map(({ logprob }) => ({ value: logprob })),
    tokenIds: tokens.map(({ tokenId }) => tokenId),
    topLogprobs: topLogprobs(tokens),
  };
}

/** One a token, or none where only the tokens' own were asked for. */
function topLogprobs(tokens: readonly TokenLogprobs[]): TopLogProbs[] {
  if (tokens.every(({ top }) => top.length === 0)) return [];
  return tokens.map(({ top }) => ({
    values: top.map(({ logprob }) => logprob),
    tokenIds: top.map(({ tokenId }) => tokenId),
  }));
}
