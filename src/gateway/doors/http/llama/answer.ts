import {
  type Completion,
  FinishReason,
  type GenerateComplete,
  type GenerateResponse,
  type GenerateStreamResponse,
  type StopMatch,
  type TokenLogprobs,
} from '../../../../shared/generated/rocmforge/v1/inference.js';
import { Listed } from '../json-slices.js';
import type { AnswerFacts, AnswerForm, AnswerWriter } from '../request.js';

/** What the end of a completion tells, wherever it comes from. */
interface End {
  readonly finishReason: FinishReason;
  readonly stopMatch: StopMatch | undefined;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly tokens: number;
}

/** Answers as llama.cpp's `/completion` has them. */
export class LlamaAnswer implements AnswerWriter {
  private readonly began = performance.now();
  private firstAt: number | undefined;
  private readonly texts = new Map<number, string>();

  constructor(
    private readonly form: AnswerForm,
    private readonly facts: AnswerFacts,
  ) {}

  begin(): void {
    this.firstAt ??= performance.now();
  }

  whole(responses: readonly GenerateResponse[]): unknown {
    const answers = responses.flatMap((response, i) => this.answers(response, i));
    const wanted = answers.map((answer) => this.wanted(answer));
    return wanted.length === 1 ? wanted[0] : wanted;
  }

  /** @param prompt which of the prompts */
  private answers(
    { completions, usage }: GenerateResponse,
    prompt: number,
  ): readonly Readonly<Record<string, unknown>>[] {
    return completions.map((completion) =>
      this.last(prompt * completions.length + completion.index, completion.text, completion.tokenIds, completion, {
        finishReason: completion.finishReason,
        stopMatch: completion.stopMatch,
        promptTokens: usage?.promptTokens ?? 0,
        cachedTokens: usage?.cachedTokens ?? 0,
        tokens: completion.tokenIds.length,
      }),
    );
  }

  events({ event }: GenerateStreamResponse): readonly string[] {
    if (event === undefined) return [];
    if (event.$case === 'complete') return [JSON.stringify(this.wanted(this.lastOf(event.value)))];
    this.begin();
    const { index, text, tokenIds, logprobs } = event.value;
    this.texts.set(index, (this.texts.get(index) ?? '') + text);
    const told = (content: string, tokens: readonly number[], of: readonly TokenLogprobs[]) =>
      JSON.stringify({ index, content, tokens, stop: false, ...this.probabilities(of) });
    if (logprobs.length < 2) return [told(text, tokenIds, logprobs)];
    // Its clients read one token's probabilities an event; where tokens were joined their text goes with the last.
    const last = logprobs.length - 1;
    return logprobs.map((token, i) => told(i === last ? text : '', [token.tokenId], [token]));
  }

  lastEvents(): readonly string[] {
    return [];
  }

  /** The fields that were asked for: `a/b` is `b` of `a`, and is called `a/b`. */
  private wanted(answer: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
    const { responseFields } = this.form;
    if (responseFields === undefined) return answer;
    const picked: Record<string, unknown> = {};
    for (const path of responseFields) {
      let value: unknown = answer;
      for (const name of path.split('/')) {
        const isThere = typeof value === 'object' && value !== null && Object.hasOwn(value, name);
        value = isThere ? (value as Record<string, unknown>)[name] : undefined;
      }
      if (value !== undefined) picked[path] = value;
    }
    return picked;
  }

  private lastOf({ index, finishReason, stopMatch, usage }: GenerateComplete): Readonly<Record<string, unknown>> {
    const { promptTokens = 0, cachedTokens = 0, completionTokens: tokens = 0 } = usage ?? {};
    const end = { finishReason, stopMatch, promptTokens, cachedTokens, tokens };
    return {
      ...this.last(index, '', [], undefined, end),
      has_new_line: this.texts.get(index)?.includes('\n') ?? false,
    };
  }

  private last(
    index: number,
    content: string,
    tokens: readonly number[],
    completion: Completion | undefined,
    end: End,
  ): Readonly<Record<string, unknown>> {
    const { match } = end.stopMatch ?? {};
    return {
      index,
      content,
      tokens: this.form.includeTokens ? tokens : [],
      ...(completion && this.probabilities(completion.logprobs)),
      stop: true,
      model: this.facts.model,
      tokens_predicted: end.tokens,
      tokens_evaluated: end.promptTokens,
      tokens_cached: end.promptTokens + end.tokens,
      has_new_line: content.includes('\n'),
      // A prompt that does not fit is refused, never cut.
      truncated: false,
      stop_type: match?.$case === 'stopString' ? 'word' : end.finishReason === FinishReason.STOP ? 'eos' : 'limit',
      stopping_word: match?.$case === 'stopString' ? match.value : '',
      timings: this.timings(end),
    };
  }

  /** As far as this door sees them: until the first token, and from it on. */
  private timings({ promptTokens, cachedTokens, tokens }: End): unknown {
    const now = performance.now();
    const promptMs = (this.firstAt ?? now) - this.began;
    const predictedMs = this.firstAt === undefined ? 0 : now - this.firstAt;
    const prompted = promptTokens - cachedTokens;
    const rates = (count: number, ms: number) => ({
      each: count === 0 ? 0 : ms / count,
      rate: ms === 0 ? 0 : count / ms,
    });
    const prompt = rates(prompted, promptMs);
    const predicted = rates(tokens, predictedMs);
    return {
      cache_n: cachedTokens,
      prompt_n: prompted,
      prompt_ms: promptMs,
      prompt_per_token_ms: prompt.each,
      prompt_per_second: 1000 * prompt.rate,
      predicted_n: tokens,
      predicted_ms: predictedMs,
      predicted_per_token_ms: predicted.each,
      predicted_per_second: 1000 * predicted.rate,
    };
  }

  private probabilities(tokens: readonly TokenLogprobs[]): Readonly<Record<string, unknown>> {
    if (this.form.logprobs === undefined || tokens.length === 0) return {};
    const one = (id: number, logprob: number | undefined) => ({
      id,
      token: this.facts.tokenText(id),
      bytes: [...this.facts.tokenBytes(id)],
      logprob: Math.max(logprob ?? 0, -Number.MAX_VALUE),
    });
    return {
      completion_probabilities: new Listed(tokens.length, (i) => {
        const { tokenId, logprob, top } = tokens[i] as TokenLogprobs;
        return {
          ...one(tokenId, logprob),
          top_logprobs: top.map((likely) => one(likely.tokenId, likely.logprob)),
        };
      }),
    };
  }
}
