import {
  type Completion,
  FinishReason,
  type GenerateChunk,
  type GenerateComplete,
  type GenerateResponse,
  type GenerateStreamResponse,
  type TokenLogprobs,
} from '../../../../shared/generated/rocmforge/v1/inference.js';
import type { PromptProgress, Recovery } from '../../../request/generation.js';
import type { AnswerFacts, AnswerForm, ResponseWriter } from '../request.js';
import { countsOf, type EngineTimes, longerTimes, progressOf, Timings, type TokenCounts } from '../timings.js';
import { deltaOf, messageOf } from './chat-turn.js';
import { CompletionLogprobs, chatLogprobs } from './logprobs.js';

/** Differences of the two forms. */
interface Shape {
  readonly idPrefix: string;
  readonly object: string;
  readonly chunkObject: string;
  /** The field of a choice that has the text. */
  unaryBody(completion: Completion): Readonly<Record<string, unknown>>;
  /** JSON of the same of a chunk. */
  chunk(chunk: GenerateChunk): string;
  /** JSON of the same where nothing comes any more. */
  readonly last: string;
  /** JSON of the same before the first text; absent: nothing comes then. */
  readonly first?: string;
}

const SHAPES: Readonly<Record<'chat' | 'completion', Shape>> = {
  chat: {
    idPrefix: 'chatcmpl-',
    object: 'chat.completion',
    chunkObject: 'chat.completion.chunk',
    unaryBody: (completion) => ({ message: messageOf(completion) }),
    first: '"delta":{"role":"assistant","content":null}',
    chunk: (chunk) => `"delta":${JSON.stringify(deltaOf(chunk))}`,
    last: '"delta":{}',
  },
  completion: {
    idPrefix: 'cmpl-',
    object: 'text_completion',
    chunkObject: 'text_completion',
    unaryBody: ({ text }) => ({ text }),
    chunk: ({ text }) => `"text":${JSON.stringify(text)}`,
    last: '"text":""',
  },
};

const DONE = '[DONE]';
const NONE: readonly string[] = [];
const NO_TOKENS: readonly TokenLogprobs[] = [];

/** Answers as OpenAI's chat completions and completions have them. */
export class OpenAiResponse implements ResponseWriter {
  private readonly shape: Shape;
  private readonly created = Math.floor(Date.now() / 1000);
  /** JSON of a chunk up to its choices. */
  private head = '';
  /** Completions that have been told of. */
  private readonly begun = new Set<number>();
  /** State of each completion that is streamed. */
  private readonly completionLogprobs = new Map<number, CompletionLogprobs>();
  private readonly timings = new Timings();
  /** Totals of all completions that have ended. */
  private counts = countsOf(undefined);
  /** Tokens of all prompts that have begun, and cache hits of those before the last. */
  private promptTokens = 0;
  private cachedBefore = 0;
  /** Tokens of all completions that have come so far. */
  private streamed = 0;

  constructor(
    private readonly form: AnswerForm & { readonly kind: 'chat' | 'completion' },
    private readonly facts: AnswerFacts,
  ) {
    this.shape = SHAPES[form.kind];
  }

  begin(): void {
    this.timings.begin();
  }

  prompt(tokens: number): void {
    this.promptTokens += tokens;
    this.cachedBefore = this.counts.cachedTokens;
  }

  unaryBody(responses: readonly GenerateResponse[]): unknown {
    const { idPrefix, object, unaryBody } = this.shape;
    const all = responses.map(({ usage }) => countsOf(usage));
    const sum = (count: (of: TokenCounts) => number) => all.reduce((total, each) => total + count(each), 0);
    const counts = {
      promptTokens: sum(({ promptTokens }) => promptTokens),
      cachedTokens: sum(({ cachedTokens }) => cachedTokens),
      tokens: sum(({ tokens }) => tokens),
      reasoning: sum(({ reasoning }) => reasoning),
      proposed: sum(({ proposed }) => proposed),
      accepted: sum(({ accepted }) => accepted),
      ms: all.reduce((longest: EngineTimes | undefined, { ms }) => longerTimes(longest, ms), undefined),
    };
    return {
      id: `${idPrefix}${responses[0]?.requestId}`,
      object,
      created: this.created,
      model: this.facts.model,
      system_fingerprint: this.facts.fingerprint,
      choices: responses.flatMap(({ completions, promptLogprobs }, prompt) =>
        completions.map((completion) => ({
          index: prompt * completions.length + completion.index,
          ...unaryBody(this.form.includeReasoning === false ? { ...completion, reasoning: '' } : completion),
          logprobs: this.logprobs(this.form.echo ? [...promptLogprobs, ...completion.logprobs] : completion.logprobs),
          finish_reason: finishOf(completion.finishReason),
        })),
      ),
      usage: usageOf(counts),
      timings: this.timings.told(counts),
      ...verbose(responses[0]?.promptText),
    };
  }

  progress(requestId: string, progress: PromptProgress): readonly string[] {
    const ms = this.timings.place(performance.now());
    if (!this.form.returnProgress) return [];
    if (this.head === '') this.head = this.headOf(requestId);
    return [`${this.head}],"prompt_progress":${JSON.stringify(progressOf(progress, ms))}}`];
  }

  recovery(requestId: string, event: Recovery): readonly string[] {
    if (!this.form.returnRecovery) return [];
    if (this.head === '') this.head = this.headOf(requestId);
    const rounded = event.state === 'lost' ? event : { ...event, ms: Math.round(event.ms) };
    return [`${this.head}],"recovery":${JSON.stringify(rounded)}}`];
  }

  events({ requestId, event }: GenerateStreamResponse): readonly string[] {
    if (this.head === '') this.head = this.headOf(requestId);
    if (event === undefined) return [];
    return event.$case === 'chunk' ? this.chunk(event.value) : this.complete(event.value);
  }

  lastEvents(): readonly string[] {
    if (!this.form.includeUsage) return [DONE];
    const usage = JSON.stringify(usageOf(this.counts));
    return [`${this.head}],"usage":${usage},"timings":${JSON.stringify(this.timings.told(this.counts))}}`, DONE];
  }

  private headOf(requestId: string): string {
    const { idPrefix, chunkObject } = this.shape;
    const { model, fingerprint: system_fingerprint } = this.facts;
    const head = {
      id: `${idPrefix}${requestId}`,
      object: chunkObject,
      created: this.created,
      model,
      system_fingerprint,
    };
    return `${JSON.stringify(head).slice(0, -1)},"choices":[`;
  }

  /** Once a token and stream: a list is made for what has entries. */
  private chunk(given: GenerateChunk): readonly string[] {
    const message = this.form.includeReasoning === false ? { ...given, reasoning: '' } : given;
    const { index, text, tokenIds, logprobs, promptLogprobs, reasoning, toolCalls } = message;
    const { first, chunk } = this.shape;
    const isFirst = !this.begun.has(index);
    if (isFirst) {
      this.begun.add(index);
      this.begin();
    }
    const firstEvent = isFirst && first !== undefined ? this.choice(index, first) : undefined;
    this.streamed += tokenIds.length;
    const hasTokens = logprobs.length > 0 || promptLogprobs.length > 0;
    const isEmpty = text === '' && !hasTokens && reasoning === '' && toolCalls.length === 0;
    if (isEmpty) return firstEvent === undefined ? NONE : [firstEvent];
    const tokens = hasTokens ? [...promptLogprobs, ...logprobs] : NO_TOKENS;
    const probabilities = this.form.logprobs === undefined ? 'null' : JSON.stringify(this.logprobs(tokens, index));
    const event = this.choice(index, chunk(message), probabilities);
    return firstEvent === undefined ? [event] : [firstEvent, event];
  }

  private complete({ index, finishReason, usage, promptText }: GenerateComplete): readonly string[] {
    const { counts } = this;
    const ended = countsOf(usage);
    this.counts = {
      promptTokens: this.promptTokens,
      cachedTokens: Math.max(counts.cachedTokens, this.cachedBefore + ended.cachedTokens),
      tokens: counts.tokens + ended.tokens,
      reasoning: counts.reasoning + ended.reasoning,
      proposed: counts.proposed + ended.proposed,
      accepted: counts.accepted + ended.accepted,
      ms: longerTimes(counts.ms, ended.ms),
    };
    const end = this.choice(index, this.shape.last, 'null', finishOf(finishReason));
    const told = JSON.stringify(verbose(promptText));
    return [told === '{}' ? end : `${end.slice(0, -1)},${told.slice(1)}`];
  }

  private choice(index: number, content: string, logprobs = 'null', finish?: string): string {
    const reason = finish === undefined ? 'null' : `"${finish}"`;
    const usage = this.form.includeUsage ? `,"usage":${this.usageSoFar()}` : '';
    return `${this.head}{"index":${index},${content},"logprobs":${logprobs},"finish_reason":${reason}}]${usage}${this.timingsSoFar()}}`;
  }

  /** JSON of the counts so far, where each event has them. */
  private usageSoFar(): string {
    if (!this.form.continuousUsage) return 'null';
    return JSON.stringify(usageOf({ ...this.counts, promptTokens: this.promptTokens, tokens: this.streamed }));
  }

  /** Behind the first event, where each tells them. */
  private timingsSoFar(): string {
    if (!this.form.timingsPerToken || this.streamed === 0) return '';
    const counts = { ...this.counts, tokens: this.streamed, ms: undefined };
    return `,"timings":${JSON.stringify(this.timings.told(counts))}`;
  }

  /** @param index of the completion, where it comes in parts */
  private logprobs(tokens: readonly TokenLogprobs[], index?: number): unknown {
    if (this.form.logprobs === undefined) return null;
    if (this.form.kind === 'chat') return chatLogprobs(tokens, this.facts);
    if (index === undefined) return new CompletionLogprobs(this.facts).write(tokens);
    const writer = this.completionLogprobs.get(index) ?? new CompletionLogprobs(this.facts);
    this.completionLogprobs.set(index, writer);
    return writer.write(tokens);
  }
}

/** Additional fields of llama.cpp, on request. */
function verbose(promptText: string | undefined): Readonly<Record<string, unknown>> {
  return promptText ? { __verbose: { prompt: promptText } } : {};
}

/** OpenAI knows of no time limit: what ran out of time was cut at its length. */
function finishOf(reason: FinishReason): string {
  if (reason === FinishReason.TOOL_CALLS) return 'tool_calls';
  return reason === FinishReason.STOP ? 'stop' : 'length';
}

/** Counts of tokens. */
function usageOf({ promptTokens, cachedTokens, tokens, reasoning, proposed, accepted }: TokenCounts): unknown {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: tokens,
    total_tokens: promptTokens + tokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
    completion_tokens_details: {
      reasoning_tokens: reasoning,
      accepted_prediction_tokens: accepted,
      rejected_prediction_tokens: proposed - accepted,
    },
  };
}
