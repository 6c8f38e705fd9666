import type { RocmForgeError } from '../../../../shared/errors.js';
import {
  ChatMessage,
  type Completion,
  FinishReason,
  type GenerateChunk,
  type GenerateComplete,
  type GenerateResponse,
  type GenerateStreamResponse,
  type Usage,
} from '../../../../shared/generated/rocmforge/v1/inference.js';
import type { PromptProgress } from '../../../request/generation.js';
import { addParts } from '../../messages.js';
import { statusOf } from '../errors.js';
import { type FieldNames, inTermsOf } from '../field-names.js';
import { JsonText } from '../json-slices.js';
import type { AnswerFacts, AnswerForm, NamedEvent, ResponseWriter } from '../request.js';
import { countsOf, progressOf, Timings } from '../timings.js';
import type { ResponsesForm } from './responses-form.js';
import { type ItemStatus, namedEvent, OutputItems } from './responses-items.js';

/** A response that has ended, for whoever stores it. */
export interface EndedResponse {
  readonly id: string;
  /** JSON of the response. */
  readonly json: string;
  readonly output: readonly Readonly<Record<string, unknown>>[];
  /** The turn that its output is. */
  readonly turn: ChatMessage;
}

/** Answers as OpenAI's Responses API has them, whole or as its events. */
export class ResponsesResponse implements ResponseWriter {
  private readonly created = Math.floor(Date.now() / 1000);
  private readonly events_: NamedEvent[] = [];
  private sequence = 0;
  private items: OutputItems | undefined;
  private id = '';
  private readonly turn: Completion;
  private readonly timings = new Timings();
  /** Tokens so far. */
  private tokens = 0;

  /** @param onEnd is given the response when it has ended */
  constructor(
    private readonly form: ResponsesForm,
    private readonly facts: AnswerFacts,
    private readonly onEnd: (ended: EndedResponse) => void,
    private readonly stream: Partial<Pick<AnswerForm, 'timingsPerToken' | 'returnProgress'>> = {},
    private readonly names: FieldNames = {},
  ) {
    this.turn = { ...EMPTY, toolCalls: [] };
  }

  begin(): void {
    this.timings.begin();
  }

  unaryBody([response]: readonly GenerateResponse[]): unknown {
    const [completion] = response?.completions ?? [];
    if (response === undefined || completion === undefined) throw new Error('an answer without a completion');
    this.id = `resp_${response.requestId}`;
    const items = new OutputItems(response.requestId, this.form);
    if (completion.reasoning !== '') items.reasoning(completion.reasoning);
    if (completion.text !== '' || completion.toolCalls.length === 0) items.text(completion.text);
    for (const [index, call] of completion.toolCalls.entries()) items.call({ index, ...call });
    const { status, reason } = endOf(completion.finishReason);
    items.close(status);
    const json = this.body(status, items, { usage: response.usage, reason });
    this.ended(json, items, completion);
    return new JsonText(json);
  }

  progress(requestId: string, progress: PromptProgress): readonly NamedEvent[] {
    const ms = this.timings.place(performance.now());
    this.start(requestId);
    if (this.stream.returnProgress) {
      const told = `"prompt_progress":${JSON.stringify(progressOf(progress, ms))}`;
      this.write('response.in_progress', `"response":${this.body('in_progress', undefined, {})},${told}`);
    }
    return this.take();
  }

  events({ requestId, event }: GenerateStreamResponse): readonly NamedEvent[] {
    const items = this.start(requestId);
    if (event?.$case === 'chunk') this.chunk(event.value, items);
    if (event?.$case === 'complete') this.complete(event.value, items);
    return this.take();
  }

  lastEvents(): readonly NamedEvent[] {
    return [];
  }

  /** `code` is one of OpenAI's; `reason` and `param` are additions. */
  failure(thrown: RocmForgeError): readonly NamedEvent[] {
    const { reason, message, metadata } = inTermsOf(thrown, this.names);
    const code = statusOf(thrown) === 429 ? 'rate_limit_exceeded' : 'server_error';
    const error = { code, message, reason, param: metadata.field ?? null };
    this.writeResponse('response.failed', this.body('failed', this.items, { error }));
    return this.take();
  }

  /** The first events, once. */
  private start(requestId: string): OutputItems {
    if (this.items !== undefined) return this.items;
    this.id = `resp_${requestId}`;
    this.items = new OutputItems(requestId, this.form, (type, members) => {
      const timings = this.stream.timingsPerToken && type.endsWith('.delta') ? { timings: this.toldTimings() } : {};
      this.write(type, JSON.stringify({ ...members, ...timings }).slice(1, -1));
    });
    const response = this.body('in_progress', undefined, {});
    this.writeResponse('response.created', response);
    this.writeResponse('response.in_progress', response);
    return this.items;
  }

  /** Times so far; the number of prompt tokens comes with the end. */
  private toldTimings(): unknown {
    return this.timings.told({ ...countsOf(undefined), tokens: this.tokens });
  }

  private chunk({ reasoning, text, toolCalls, tokenIds }: GenerateChunk, items: OutputItems): void {
    this.begin();
    this.tokens += tokenIds.length;
    if (reasoning !== '') items.reasoning(reasoning);
    if (text !== '') items.text(text);
    for (const call of toolCalls) items.call(call);
    this.turn.text += text;
    addParts(this.turn, { reasoning, toolCalls });
  }

  private complete({ finishReason, usage }: GenerateComplete, items: OutputItems): void {
    const { status, reason } = endOf(finishReason);
    items.close(status);
    const json = this.body(status, items, { usage, reason });
    const timings = this.timings.told(countsOf(usage));
    this.write(`response.${status}`, `"response":${json},"timings":${JSON.stringify(timings)}`);
    this.ended(json, items, this.turn);
  }

  private ended(json: string, items: OutputItems, { text, reasoning, toolCalls }: Completion): void {
    const turn = ChatMessage.fromPartial({ role: 'assistant', content: text, reasoning, toolCalls });
    this.onEnd({ id: this.id, json, output: items.all, turn });
  }

  /** JSON of the response. */
  private body(
    status: ItemStatus | 'failed',
    items: OutputItems | undefined,
    {
      usage,
      reason,
      error = null,
    }: { readonly usage?: Usage | undefined; readonly reason?: string | undefined; readonly error?: unknown },
  ): string {
    const own = {
      id: this.id,
      object: 'response',
      created_at: this.created,
      completed_at: status === 'completed' ? Math.floor(Date.now() / 1000) : null,
      status,
      error,
      incomplete_details: reason === undefined ? null : { reason },
      model: this.facts.model,
      output: items?.all ?? [],
      usage: usage === undefined ? null : usageOf(usage),
    };
    return `${JSON.stringify(own).slice(0, -1)},${this.form.echo}}`;
  }

  private writeResponse(type: string, json: string): void {
    this.write(type, `"response":${json}`);
  }

  private write(type: string, members: string): void {
    this.events_.push(namedEvent(type, this.sequence, members));
    this.sequence += 1;
  }

  private take(): readonly NamedEvent[] {
    return this.events_.splice(0);
  }
}

const EMPTY: Completion = {
  ...{ index: 0, text: '', tokenIds: [], logprobs: [], finishReason: FinishReason.UNSPECIFIED, stopMatch: undefined },
  ...{ seed: 0n, reasoning: '', toolCalls: [] },
};

function endOf(finish: FinishReason): { readonly status: 'completed' | 'incomplete'; readonly reason?: string } {
  const isCut = finish === FinishReason.LENGTH || finish === FinishReason.TIME_LIMIT;
  return isCut ? { status: 'incomplete', reason: 'max_output_tokens' } : { status: 'completed' };
}

function usageOf({ promptTokens, cachedTokens, completionTokens, reasoningTokens }: Usage): unknown {
  return {
    input_tokens: promptTokens,
    input_tokens_details: { cached_tokens: cachedTokens },
    output_tokens: completionTokens,
    output_tokens_details: { reasoning_tokens: reasoningTokens },
    total_tokens: promptTokens + completionTokens,
  };
}
