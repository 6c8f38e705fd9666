import {
  type Completion,
  FinishReason,
  type GenerateChunk,
  type GenerateComplete,
  type GenerateResponse,
  type GenerateStreamResponse,
  type StopMatch,
  type ToolCallDelta,
  type Usage,
} from '../../../../shared/generated/rocmforge/v1/inference.js';
import { argumentsValue } from '../call-arguments.js';
import type { AnswerFacts, NamedEvent, ResponseWriter } from '../request.js';

type Json = Readonly<Record<string, unknown>>;

/** A block of a streamed answer. */
type Block = 'thinking' | 'text' | `call ${number}`;

/** Answers as Anthropic's Messages API has them, whole or as its events (https://docs.anthropic.com/en/api/messages-streaming). */
export class MessagesResponse implements ResponseWriter {
  readonly errorEvent = 'error';
  private promptTokens = 0;
  private hasBegun = false;
  /** The block that is open, and how many there were before it. */
  private block: Block | undefined;
  private index = 0;

  constructor(private readonly facts: AnswerFacts) {}

  begin(): void {}

  prompt(tokens: number): void {
    this.promptTokens = tokens;
  }

  unaryBody([response]: readonly GenerateResponse[]): unknown {
    const [completion] = response?.completions ?? [];
    if (response === undefined || completion === undefined) throw new Error('an answer without a completion');
    return {
      ...this.message(response.requestId, contentOf(completion)),
      ...endOf(completion),
      usage: usageOf(response.usage),
    };
  }

  events({ requestId, event }: GenerateStreamResponse): readonly NamedEvent[] {
    if (event === undefined) return [];
    const events: NamedEvent[] = [];
    if (!this.hasBegun) {
      const usage = { input_tokens: this.promptTokens, cache_read_input_tokens: 0, output_tokens: 0 };
      const end = { stop_reason: null, stop_sequence: null };
      events.push(named('message_start', { message: { ...this.message(requestId, []), ...end, usage } }));
    }
    this.hasBegun = true;
    if (event.$case === 'chunk') this.chunk(event.value, events);
    else this.complete(event.value, events);
    return events;
  }

  lastEvents(): readonly NamedEvent[] {
    return [];
  }

  private message(requestId: string, content: readonly Json[]): Json {
    return { id: `msg_${requestId}`, type: 'message', role: 'assistant', model: this.facts.model, content };
  }

  private chunk({ reasoning, text, toolCalls }: GenerateChunk, events: NamedEvent[]): void {
    if (reasoning !== '') {
      this.open('thinking', { type: 'thinking', thinking: '', signature: '' }, events);
      this.delta({ type: 'thinking_delta', thinking: reasoning }, events);
    }
    if (text !== '') {
      this.open('text', { type: 'text', text: '' }, events);
      this.delta({ type: 'text_delta', text }, events);
    }
    for (const call of toolCalls) this.call(call, events);
  }

  private call({ index, id, name, argumentsJson }: ToolCallDelta, events: NamedEvent[]): void {
    this.open(`call ${index}`, { type: 'tool_use', id, name, input: {} }, events);
    if (argumentsJson !== '') this.delta({ type: 'input_json_delta', partial_json: argumentsJson }, events);
  }

  /** Blocks follow each other: another one ends the one before. */
  private open(block: Block, content: Json, events: NamedEvent[]): void {
    if (this.block === block) return;
    this.close(events);
    this.block = block;
    events.push(named('content_block_start', { index: this.index, content_block: content }));
  }

  private delta(delta: Json, events: NamedEvent[]): void {
    events.push(named('content_block_delta', { index: this.index, delta }));
  }

  private close(events: NamedEvent[]): void {
    if (this.block === undefined) return;
    events.push(named('content_block_stop', { index: this.index }));
    this.block = undefined;
    this.index += 1;
  }

  private complete(end: GenerateComplete, events: NamedEvent[]): void {
    this.close(events);
    events.push(named('message_delta', { delta: endOf(end), usage: usageOf(end.usage) }), named('message_stop', {}));
  }
}

/** Each event's name is its type, too. */
const named = (type: string, rest: Json): NamedEvent => ({ name: type, data: JSON.stringify({ type, ...rest }) });

function contentOf({ reasoning, text, toolCalls }: Completion): readonly Json[] {
  const blocks: Json[] = [];
  if (reasoning !== '') blocks.push({ type: 'thinking', thinking: reasoning, signature: '' });
  if (text !== '') blocks.push({ type: 'text', text });
  for (const { id, name, argumentsJson } of toolCalls) {
    blocks.push({ type: 'tool_use', id, name, input: argumentsValue(argumentsJson) });
  }
  // Its readers take the first for granted.
  return blocks.length === 0 ? [{ type: 'text', text }] : blocks;
}

function endOf({
  finishReason,
  stopMatch,
}: {
  readonly finishReason: FinishReason;
  readonly stopMatch?: StopMatch | undefined;
}): Json {
  const { match } = stopMatch ?? {};
  if (match?.$case === 'stopString') return { stop_reason: 'stop_sequence', stop_sequence: match.value };
  const reason =
    finishReason === FinishReason.TOOL_CALLS
      ? 'tool_use'
      : finishReason === FinishReason.STOP
        ? 'end_turn'
        : 'max_tokens';
  return { stop_reason: reason, stop_sequence: null };
}

/** `input_tokens` are those that were computed. */
function usageOf(usage: Usage | undefined): Json {
  const { promptTokens = 0, cachedTokens = 0, completionTokens = 0 } = usage ?? {};
  return {
    input_tokens: promptTokens - cachedTokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cachedTokens,
    output_tokens: completionTokens,
  };
}
