import {
  type Completion,
  FinishReason,
  type GenerateComplete,
  type GenerateResponse,
  type GenerateStreamResponse,
  type StopMatch,
  type TokenLogprobs,
} from '../../../../shared/generated/rocmforge/v1/inference.js';
import type { PromptProgress } from '../../../request/generation.js';
import { JsonText, jsonOf, Listed } from '../json-slices.js';
import type { AnswerFacts, AnswerForm, ResponseWriter } from '../request.js';
import { countsOf, progressOf, Timings, type TokenCounts } from '../timings.js';

/** Facts at the end of a completion, from any source. */
interface End extends TokenCounts {
  readonly finishReason: FinishReason;
  readonly stopMatch: StopMatch | undefined;
  /** A number of 64 bits. */
  readonly seed: bigint;
  readonly promptText: string;
}

/** Answers as llama.cpp's `/completion` has them. */
export class LlamaResponse implements ResponseWriter {
  private readonly timings = new Timings();
  private readonly texts = new Map<number, string>();
  /** Totals of all completions so far. */
  private tokens = 0;

  constructor(
    private readonly form: AnswerForm,
    private readonly facts: AnswerFacts,
  ) {}

  begin(): void {
    this.timings.begin();
  }

  unaryBody(responses: readonly GenerateResponse[]): unknown {
    const answers = responses.flatMap((response, i) => this.answers(response, i));
    const wanted = answers.map((answer) => this.wanted(answer));
    return wanted.length === 1 ? wanted[0] : wanted;
  }

  /** @param prompt which of the prompts */
  private answers(
    { completions, usage, promptText }: GenerateResponse,
    prompt: number,
  ): readonly Readonly<Record<string, unknown>>[] {
    return completions.map((completion) =>
      this.last(prompt * completions.length + completion.index, completion.text, completion.tokenIds, completion, {
        finishReason: completion.finishReason,
        stopMatch: completion.stopMatch,
        ...countsOf(usage),
        tokens: completion.tokenIds.length,
        seed: completion.seed,
        promptText,
      }),
    );
  }

  progress(_requestId: string, progress: PromptProgress): readonly string[] {
    const now = performance.now();
    const ms = this.timings.place(now);
    if (!this.form.returnProgress) return [];
    const { processed: promptTokens, cached: cachedTokens } = progress;
    const counts = { ...countsOf(undefined), promptTokens, cachedTokens };
    const timings = this.form.timingsPerToken ? { timings: this.timings.told(counts, now) } : {};
    const told = { index: 0, content: '', tokens: [], stop: false, prompt_progress: progressOf(progress, ms) };
    return [JSON.stringify({ ...told, ...timings })];
  }

  events({ event }: GenerateStreamResponse): readonly string[] {
    if (event === undefined) return [];
    if (event.$case === 'complete') return [jsonOf(this.wanted(this.lastOf(event.value)))];
    this.begin();
    const { index, text, tokenIds, logprobs } = event.value;
    this.texts.set(index, (this.texts.get(index) ?? '') + text);
    this.tokens += tokenIds.length;
    // Without tokens to generate only the end is sent.
    if (text === '' && tokenIds.length === 0) return [];
    // The number of prompt tokens comes with the end.
    const counts = { ...countsOf(undefined), tokens: this.tokens };
    const timings = this.form.timingsPerToken ? { timings: this.timings.told(counts) } : {};
    const told = (content: string, tokens: readonly number[], of: readonly TokenLogprobs[]) =>
      JSON.stringify({ index, content, tokens, stop: false, ...this.probabilities(of), ...timings });
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

  private lastOf({
    index,
    finishReason,
    stopMatch,
    usage,
    seed,
    promptText,
  }: GenerateComplete): Readonly<Record<string, unknown>> {
    const end = { finishReason, stopMatch, ...countsOf(usage), seed, promptText };
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
      prompt: end.promptText,
      tokens_predicted: end.tokens,
      tokens_evaluated: end.promptTokens,
      tokens_cached: end.promptTokens + end.tokens,
      has_new_line: content.includes('\n'),
      // A prompt that does not fit is refused, never cut: an answer is, where the context is full before it is over.
      truncated: this.isCut(end),
      stop_type: match?.$case === 'stopString' ? 'word' : end.finishReason === FinishReason.STOP ? 'eos' : 'limit',
      stopping_word: match?.$case === 'stopString' ? match.value : '',
      generation_settings: { ...this.settings(), seed: new JsonText(String(end.seed)) },
      timings: this.timings.told(end),
    };
  }

  private isCut({ finishReason, promptTokens, tokens }: End): boolean {
    const most = Number(this.form.settings?.n_predict ?? -1);
    const isFull = promptTokens + tokens >= this.facts.contextLength;
    return finishReason === FinishReason.LENGTH && isFull && (most < 0 || tokens < most);
  }

  /** If the end of the text is ignored, its tokens are biased away, as llama.cpp reports it: `null` is minus infinity. */
  private settings(): Readonly<Record<string, unknown>> {
    const { settings = {} } = this.form;
    if (settings.ignore_eos !== true) return settings;
    const ends = [...this.facts.endIds].map((token) => ({ token, bias: null }));
    return { ...settings, logit_bias: [...(settings.logit_bias as readonly unknown[]), ...ends] };
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
