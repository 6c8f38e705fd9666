import type { Tokenizer } from '../../lib/tokenizer/tokenizer.js';
import type { RocmForgeError } from '../../shared/errors.js';
import type { TokenConstraint } from '../matching/token-constraint.js';
import { type AnswerOptions, type AnswerParts, answerParser } from './answer.js';
import { Completion, type Finish, type StopOptions } from './completion.js';
import type { RequestContext } from './context.js';
import { type ReturnedStates, Sequence, type SequenceSampling } from './sequence.js';

/** A request, validated and encoded. */
export interface GenerationParameters {
  readonly promptIds: Uint32Array;
  /** Sampling of the first completion; the others differ by their index, and return no log probabilities of the prompt. */
  readonly sampling: SequenceSampling;
  readonly stop: StopOptions;
  /** Reader of reasoning and calls in the text; absent: all of it is content. */
  readonly answer?: AnswerOptions | undefined;
  /** Completions. */
  readonly n: number;
  readonly priority: number;
  /** Milliseconds; 0: no limit. */
  readonly timeLimitMs: number;
  /** Hidden states that are returned; default none. */
  readonly returns?: ReturnedStates | undefined;
  /** True if it runs for its prompt alone, as without tokens to generate: what is sampled is not counted as generated. */
  readonly isPromptOnly?: boolean;
  /** True if it ends with the hidden states of its prompt: an encoder samples nothing. */
  readonly samplesNothing?: boolean;
  /** May draft token at next tokens; default false. */
  readonly speculates?: boolean;
  /** Takes draft tokens of the model's prediction block, too; default false. */
  readonly predicts?: boolean;
  /** Constraint on the tokens of each completion. */
  readonly constraints?: readonly TokenConstraint[] | undefined;
  /** Settles when all first masks are known or one is refused, which ends the generation; absent: they are known. */
  readonly opened?: Promise<void> | undefined;
  /** The prompt's text, where it comes in front of each completion's; else absent. */
  readonly promptText: string | undefined;
}

/** The probability of a token and of the likeliest ones at its place. */
export interface TokenProbability {
  readonly tokenId: number;
  readonly logprob: number;
  /** 1: the likeliest. */
  readonly rank: number;
  readonly topIds: readonly number[];
  readonly topLogprobs: readonly number[];
  /** Log probabilities of the tokens that the request names, in its order. */
  readonly chosenLogprobs: readonly number[];
  readonly chosenRanks: readonly number[];
  /** Those tokens, which the executor does not repeat. */
  readonly logprobTokenIds?: readonly number[];
}

/** The same of a prompt's token; nothing comes before the first one, so it has none. */
export type PromptProbability = TokenProbability | { readonly tokenId: number };

/** Number of prompt tokens that are computed. */
export interface PromptProgress {
  readonly total: number;
  /** Found computed. */
  readonly cached: number;
  /** Computed or found computed. */
  readonly processed: number;
}

/** Loss of a generation's executor, or its first token afterwards and the time (ms) between the two. */
export type Recovery = { readonly state: 'lost' } | { readonly state: 'resumed'; readonly ms: number };

/** Receives what happens to a generation. Called from the event loop, in order, never after `error` or the last end. */
export interface GenerationSink {
  chunk(
    index: number,
    tokenIds: readonly number[],
    text: string,
    logprobs: readonly TokenProbability[],
    beside: AnswerParts | undefined,
  ): void;
  /** The prompt has a slot, or more of it is computed than ever before: before the first chunk. */
  progress(progress: PromptProgress): void;
  /** Its executor was lost, or its tokens come again: before the chunk of the first of them. */
  recovery?(event: Recovery): void;
  /** Before the chunk of a token: the state that the prompt's are pooled to, or its scores, as little-endian f32. */
  pooled?(values: Uint8Array): void;
  /**
   * Hidden states of positions of the prompt from `position` on, one after the other, if all are returned: before the first chunk,
   * in order, each once.
   */
  hiddenStates?(position: number, states: Uint8Array): void;
  /** Before the first chunk, when they were asked for: one entry a prompt token, the first without a probability. */
  prompt(logprobs: readonly PromptProbability[]): void;
  complete(index: number, finish: Finish, counts: CompletionCounts): void;
  error(error: RocmForgeError): void;
}

export interface CompletionCounts {
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
  /** Number of those up to the last of the reasoning. */
  readonly reasoningTokens: number;
  /** Draft tokens at its tokens, and those that were right. */
  readonly proposedTokens: number;
  readonly acceptedTokens: number;
  /** Those of them that the model's prediction block made. */
  readonly predictedTokens: number;
  readonly acceptedPredictedTokens: number;
  /** Until it first had a slot, from then until its first token, and from then until its end. */
  readonly queuedUs: number;
  readonly prefillUs: number;
  readonly decodeUs: number;
  readonly seed: bigint;
}

/** When a completion first had a slot, and its first token. */
interface Milestones {
  readonly placedAt: number;
  firstTokenAt?: number;
}

/** A request under way: its sequences, their texts, and who listens. */
export class Generation {
  readonly sequences: readonly Sequence[];
  private readonly completions: readonly Completion[];
  /** Positions of the prompt whose hidden states were returned. */
  private hiddenPositions = 0;
  /** Log probabilities of prompt tokens, by position, as far as they are computed. */
  private readonly promptProbabilities: PromptProbability[] = [];
  /** Time at which each sequence that had a slot last got one. */
  private readonly preemptions = new Map<Sequence, number>();
  private readonly began = performance.now();
  private readonly milestones = new Map<Sequence, Milestones>();
  private left: number;
  /** Time at which its executor was lost; absent while its tokens come. */
  private lostAt: number | undefined;
  /** Tokens of the prompt that were told to be processed; below 0 before it had a slot. */
  private processed = -1;
  /** Number of tokens that end a text. */
  private readonly endIds: number;

  constructor(
    readonly parameters: GenerationParameters,
    readonly context: RequestContext,
    tokenizer: Tokenizer,
    private readonly sink: GenerationSink,
  ) {
    const { n, promptIds, sampling: shared, promptText, stop, answer, priority } = parameters;
    const { constraints, speculates = false, predicts = false, returns, samplesNothing } = parameters;
    this.promptProbabilities.push({ tokenId: promptIds[0] as number });
    const indices = Array.from({ length: n }, (_, i) => i);
    this.completions = indices.map(() => new Completion(tokenizer, stop, answer && answerParser(answer)));
    const sequences: Sequence[] = [];
    for (const sampleIndex of indices) {
      const [leader] = sequences;
      // The prompt is the same for all: the first computes it and tells its log probabilities, which blocks that are found
      // do not have; the others take what it has computed.
      const isPooled = returns?.pooling === 'mean' || returns?.pooling === 'none' || samplesNothing === true;
      const isWhole = shared.promptLogprobs > 0 || promptText !== undefined || isPooled;
      const takesPrefix = leader !== undefined || !isWhole;
      const constrained = Number(constraints !== undefined);
      const sampling = { ...shared, sampleIndex, constrained, ...(leader && { promptLogprobs: 0 }) };
      const options = {
        promptIds,
        sampling,
        // The last position of a prompt is computed to sample a token, returned or not.
        maxTokens: Math.max(stop.maxTokens, 1),
        priority,
        peer: context.principal,
        takesPrefix,
        constraint: constraints?.[sampleIndex],
        speculates,
        predicts,
        returns,
      };
      sequences.push(new Sequence({ ...options, ...(leader && { leader }) }));
    }
    this.sequences = sequences;
    this.left = n;
    this.endIds = tokenizer.eogIds.size;
  }

  /** True if every completion has ended. */
  get done(): boolean {
    return this.left === 0;
  }

  /** A sequence has a slot, for the first time or again. */
  placed(sequence: Sequence): void {
    if (!this.milestones.has(sequence)) this.milestones.set(sequence, { placedAt: performance.now() });
    this.progressed(sequence);
    const { spans } = this.context;
    if (spans === undefined) return;
    const { sampleIndex } = sequence.options.sampling;
    const before = this.preemptions.get(sequence);
    const lost = sequence.preemptions > (before ?? 0) ? 'preemption' : 'replay';
    spans.placed(sampleIndex, before === undefined ? undefined : lost);
    this.preemptions.set(sequence, sequence.preemptions);
  }

  /** A step of a sequence's has returned. The completions share the prompt: it is told once, and not again where it is computed again. */
  progressed(sequence: Sequence): void {
    const { promptIds, sampling } = sequence.options;
    if (sampling.sampleIndex > 0) return;
    const processed = Math.min(sequence.computed, promptIds.length);
    if (processed <= this.processed) return;
    this.processed = processed;
    this.sink.progress({ total: promptIds.length, cached: sequence.cachedTokens, processed });
  }

  /**
   * The executor of one of its sequences was lost. A loss before the next token is part of the same interruption.
   *
   * @param lostAt when the executor was last heard of, ms of `performance.now()`
   */
  interrupted(lostAt: number): void {
    if (this.done || this.lostAt !== undefined) return;
    this.lostAt = lostAt;
    this.sink.recovery?.({ state: 'lost' });
  }

  private resumed(): void {
    if (this.lostAt === undefined) return;
    const ms = performance.now() - this.lostAt;
    this.lostAt = undefined;
    this.sink.recovery?.({ state: 'resumed', ms });
  }

  /** A sequence emitted a token. @returns whether that was its last */
  push(sequence: Sequence, token: TokenProbability): boolean {
    const index = sequence.options.sampling.sampleIndex;
    const completion = this.completions[index] as Completion;
    const milestones = this.milestones.get(sequence);
    if (milestones !== undefined) milestones.firstTokenAt ??= performance.now();
    this.resumed();
    if (this.parameters.stop.maxTokens === 0) {
      this.sink.chunk(index, [], this.parameters.promptText ?? '', [], undefined);
      this.finish(sequence, { reason: 'length' });
      return true;
    }
    const { text, beside, finish } = completion.push(token.tokenId);
    const prompt = completion.tokens === 1 ? (this.parameters.promptText ?? '') : '';
    const logprobs = this.parameters.sampling.logprobs > 0 ? [this.named(token)] : [];
    this.sink.chunk(index, [token.tokenId], prompt + text, logprobs, beside);
    if (finish !== undefined) this.finish(sequence, finish);
    return finish !== undefined;
  }

  /** A token with the ids of those whose log probabilities it has: the first that are biased. */
  private named(token: TokenProbability): TokenProbability {
    const { logitBias, chosenLogprobs } = this.parameters.sampling;
    if (chosenLogprobs === 0) return token;
    return { ...token, logprobTokenIds: logitBias.slice(0, chosenLogprobs).map(([id]) => id) };
  }

  /**
   * Log probabilities of prompt tokens from `position` on. They come in order; those of a prompt that is computed again
   * are the same again. With the last of them the sink is told.
   */
  pushPrompt(position: number, probabilities: readonly TokenProbability[]): void {
    const { promptIds } = this.parameters;
    const isKnown = this.promptProbabilities.length === promptIds.length && promptIds.length > 1;
    probabilities.forEach((probability, i) => {
      this.promptProbabilities[position + i] = probability;
    });
    if (!isKnown && this.promptProbabilities.length === promptIds.length) this.sink.prompt(this.promptProbabilities);
  }

  /**
   * Hidden states of positions from `position` on. They come in order; those of a prompt that is computed again are the same again.
   *
   * @returns whether nothing comes behind them
   */
  pushHidden(sequence: Sequence, position: number, count: number, states: Uint8Array): boolean {
    const known = Math.max(0, this.hiddenPositions - position);
    if (known >= count) return false;
    this.hiddenPositions = position + count;
    this.sink.hiddenStates?.(position + known, states.subarray((states.length / count) * known));
    return this.hiddenPositions === this.parameters.promptIds.length && this.endsWithStates(sequence);
  }

  /** The state that those of the prompt are pooled to, or its scores. @returns whether nothing comes behind it */
  pushPooled(sequence: Sequence, values: Uint8Array): boolean {
    this.sink.pooled?.(values);
    return this.endsWithStates(sequence);
  }

  /** A model that samples nothing has returned all hidden states. @returns false of any other model */
  private endsWithStates(sequence: Sequence): boolean {
    if (this.parameters.samplesNothing !== true) return false;
    this.resumed();
    this.finish(sequence, { reason: 'length' });
    return true;
  }

  /** True if hidden states were returned. */
  get hasHiddenStates(): boolean {
    return this.hiddenPositions > 0;
  }

  /** True if no token that ends a sequence's text can be sampled yet. */
  cannotEnd(sequence: Sequence): boolean {
    return this.endIds === 0 || sequence.emitted.length < this.parameters.stop.minTokens;
  }

  /** Ends a sequence that emits no more although its own rules did not end it. */
  end(sequence: Sequence, finish: Finish): void {
    const index = sequence.options.sampling.sampleIndex;
    const { text, beside, finish: end = finish } = (this.completions[index] as Completion).end(finish);
    if (text !== '' || beside !== undefined) this.sink.chunk(index, [], text, [], beside);
    this.finish(sequence, end);
  }

  /** Ends the whole generation with an error. */
  fail(error: RocmForgeError): void {
    if (this.done) return;
    this.left = 0;
    this.sink.error(error);
  }

  /** Nobody listens any more. */
  abandon(): void {
    this.left = 0;
    for (const constraint of this.parameters.constraints ?? []) constraint.close();
  }

  private finish(sequence: Sequence, finish: Finish): void {
    this.left -= 1;
    const { sampling, promptIds } = sequence.options;
    const now = performance.now();
    const { placedAt = now, firstTokenAt = now } = this.milestones.get(sequence) ?? {};
    const completion = this.completions[sampling.sampleIndex] as Completion;
    const us = (from: number, to: number) => Math.round(1000 * (to - from));
    this.sink.complete(sampling.sampleIndex, finish, {
      proposedTokens: sequence.drafted,
      acceptedTokens: sequence.accepted,
      predictedTokens: sequence.predicted,
      acceptedPredictedTokens: sequence.acceptedPredicted,
      queuedUs: us(this.began, placedAt),
      prefillUs: us(placedAt, firstTokenAt),
      decodeUs: us(firstTokenAt, now),
      promptTokens: promptIds.length,
      cachedTokens: sequence.cachedTokens,
      completionTokens: completion.tokens,
      reasoningTokens: completion.reasoningTokens,
      seed: sampling.seed,
    });
  }
}
