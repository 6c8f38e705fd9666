import {
  FinishReason,
  type GenerateChunk,
  type GenerateResponse,
  type GenerateStreamResponse,
  type TokenLogprobs,
  type ToolCallDelta,
  type Usage,
} from '../../../../shared/generated/rocmforge/v1/inference.js';
import { argumentsValue } from '../call-arguments.js';
import { jsonOf } from '../json-slices.js';
import { chatLogprobs } from '../openai/logprobs.js';
import type { AnswerFacts, ResponseWriter } from '../request.js';
import type { OllamaForm } from './ollama-form.js';

type Json = Readonly<Record<string, unknown>>;

interface Call {
  readonly index: number;
  readonly id: string;
  readonly name: string;
  argumentsJson: string;
}

/** Responses of Ollama's `/api/chat` and `/api/generate`: one object, or a line of JSON for each chunk. */
export class OllamaResponse implements ResponseWriter {
  readonly lines = { type: 'application/x-ndjson', waiting: () => this.line({}) };
  private readonly began = performance.now();
  /** The streamed call whose arguments are incomplete: Ollama's clients read only complete ones. */
  private call: Call | undefined;

  constructor(
    private readonly form: OllamaForm,
    private readonly facts: AnswerFacts,
    private readonly hasLogprobs: boolean,
  ) {}

  begin(): void {}

  /** The response to a request that only loads or unloads the model. */
  loaded(reason: 'load' | 'unload'): Json {
    return { ...this.head({}), done: true, done_reason: reason };
  }

  unaryBody([response]: readonly GenerateResponse[]): unknown {
    const [completion] = response?.completions ?? [];
    if (response === undefined || completion === undefined) throw new Error('a response without a completion');
    const { text, reasoning: thinking, toolCalls, finishReason, logprobs } = completion;
    const calls = toolCalls.map((call, index) => ({ ...call, index }));
    return {
      ...this.head({ text, thinking, calls }),
      ...this.end(finishReason, response.usage),
      ...this.probabilities(logprobs),
    };
  }

  events({ event }: GenerateStreamResponse): readonly string[] {
    if (event === undefined) return [];
    if (event.$case === 'chunk') return this.chunk(event.value);
    const { finishReason, usage } = event.value;
    const calls = this.ended();
    const last = jsonOf({ ...this.head({}), ...this.end(finishReason, usage) });
    return calls.length === 0 ? [last] : [this.line({ calls }), last];
  }

  lastEvents(): readonly string[] {
    return [];
  }

  private chunk({ text, reasoning: thinking, toolCalls, logprobs }: GenerateChunk): readonly string[] {
    const calls = toolCalls.flatMap((delta) => this.add(delta));
    if (text === '' && thinking === '' && calls.length === 0 && logprobs.length === 0) return [];
    return [this.line({ text, thinking, calls }, logprobs)];
  }

  /** Adds to the current call. @returns the call before it, if another one begins */
  private add({ index, id, name, argumentsJson }: ToolCallDelta): readonly Call[] {
    if (this.call?.index === index) {
      this.call.argumentsJson += argumentsJson;
      return [];
    }
    const before = this.ended();
    this.call = { index, id, name, argumentsJson };
    return before;
  }

  private ended(): readonly Call[] {
    const { call } = this;
    this.call = undefined;
    return call === undefined ? [] : [call];
  }

  private line(parts: Parameters<OllamaResponse['head']>[0], logprobs: readonly TokenLogprobs[] = []): string {
    return jsonOf({ ...this.head(parts), done: false, ...this.probabilities(logprobs) });
  }

  private head({
    text = '',
    thinking = '',
    calls = [],
  }: {
    readonly text?: string;
    readonly thinking?: string;
    readonly calls?: readonly Call[];
  }): Json {
    const { api, model } = this.form;
    const head = { model: model || this.facts.model, created_at: new Date().toISOString() };
    const thought = thinking === '' ? {} : { thinking };
    if (api === 'generate') return { ...head, response: text, ...thought };
    const made = calls.map(({ id, index, name, argumentsJson }) => ({
      id,
      function: { index, name, arguments: argumentsValue(argumentsJson) },
    }));
    return {
      ...head,
      message: { role: 'assistant', content: text, ...thought, ...(made.length > 0 && { tool_calls: made }) },
    };
  }

  /** Durations are in ns. Loading is part of the time before the sequence has a slot. */
  private end(reason: FinishReason, usage: Usage | undefined): Json {
    const ns = (us: bigint | undefined): number => Number(us ?? 0n) * 1000;
    return {
      done: true,
      done_reason: reason === FinishReason.STOP || reason === FinishReason.TOOL_CALLS ? 'stop' : 'length',
      total_duration: Math.round((performance.now() - this.began) * 1e6),
      load_duration: ns(usage?.queuedUs),
      prompt_eval_count: usage?.promptTokens ?? 0,
      prompt_eval_duration: ns(usage?.prefillUs),
      eval_count: usage?.completionTokens ?? 0,
      eval_duration: ns(usage?.decodeUs),
    };
  }

  private probabilities(tokens: readonly TokenLogprobs[]): Json {
    if (!this.hasLogprobs || tokens.length === 0) return {};
    return { logprobs: (chatLogprobs(tokens, this.facts) as { readonly content: unknown }).content };
  }
}
