import { randomInt } from 'node:crypto';
import { detokenize } from '../../lib/tokenizer/detokenizer.js';
import type { Tokenizer } from '../../lib/tokenizer/tokenizer.js';
import { type ChatInput, type ToolCallDelta, ToolChoiceMode } from '../../shared/generated/rocmforge/v1/inference.js';
import { isAddressed } from '../chat/answer/answer-format.js';
import { AnswerParser, type ResponseStart, responseStart } from '../chat/answer/answer-parser.js';
import type { OfferedTool, ResponseEvent } from '../chat/answer/events.js';
import { offeredTools } from '../chat/template-input.js';
import type { LimitFacts } from './limits.js';

/** Reader of the answers of a conversation. */
export interface AnswerOptions {
  readonly format: NonNullable<LimitFacts['answerFormat']>;
  /** The functions that may be called. */
  readonly tools: readonly OfferedTool[];
  /** Position in the turn at which the answer starts. */
  readonly start: ResponseStart;
  /** Behind so many calls the turn is over; absent: never. */
  readonly mostCalls: number | undefined;
}

/** Additions of a step other than content. */
export interface AnswerParts {
  readonly reasoning: string;
  readonly toolCalls: readonly ToolCallDelta[];
}

/** Tokens of the prompt's end among which its beginning of the reasoning is looked for. */
const PROMPT_END_TOKENS = 16;
const ID_CHARACTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
/** Form of ids that Mistral's templates require, and others accept. */
const ID_LENGTH = 9;

/** Reader of the answers of a conversation; undefined where all of their text is content. */
export function answerOptions(
  chat: ChatInput,
  { answerFormat: format }: LimitFacts,
  prompt: { readonly tokenizer: Tokenizer; readonly ids: Uint32Array },
): AnswerOptions | undefined {
  if (format === undefined) return undefined;
  const tools = offeredTools(chat);
  if (format.reasoning === undefined && !isAddressed(format) && tools.length === 0) return undefined;
  const promptEnd = detokenize(prompt.tokenizer, prompt.ids.subarray(-PROMPT_END_TOKENS), {
    wholeText: false,
    includeSpecial: true,
  });
  return {
    format,
    tools: tools.map(({ name, parametersJson }) => ({ name, parametersJson })),
    start: responseStart(format, promptEnd, chat.continueFinalMessage ? chat.messages.at(-1)?.content : undefined),
    mostCalls: chat.parallelToolCalls === false ? 1 : undefined,
  };
}

/** Reads one completion. */
export function answerParser(options: AnswerOptions): AnswerParser {
  return new AnswerParser({ ...options, newId: randomId });
}

/** True if a conversation demands a call, which only a constraint can keep a model to. */
export function requiresCall({ toolChoice }: ChatInput): boolean {
  const choice = toolChoice?.choice;
  return choice?.$case === 'function' || choice?.value === ToolChoiceMode.REQUIRED;
}

/** The events of a step as its text and what is beside it; undefined where nothing is. */
export function partsOf(events: readonly ResponseEvent[]): { text: string; beside: AnswerParts | undefined } {
  let text = '';
  let reasoning = '';
  const toolCalls: ToolCallDelta[] = [];
  for (const event of events) {
    if (event.kind === 'content') text += event.text;
    else if (event.kind === 'reasoning') reasoning += event.text;
    else if (event.kind === 'call') {
      const { index, id, name } = event;
      toolCalls.push({ index, id, name, argumentsJson: '' });
    } else if (event.kind === 'arguments') {
      addDelta(toolCalls, { index: event.index, id: '', name: '', argumentsJson: event.text });
    }
  }
  const hasMore = reasoning !== '' || toolCalls.length > 0;
  return { text, beside: hasMore ? { reasoning, toolCalls } : undefined };
}

/** Adds a piece of a call to others: to the last of them where it goes on with it. */
export function addDelta(deltas: ToolCallDelta[], delta: ToolCallDelta): void {
  const last = deltas.at(-1);
  if (last === undefined || last.index !== delta.index) deltas.push({ ...delta });
  else last.argumentsJson += delta.argumentsJson;
}

function randomId(): string {
  return Array.from({ length: ID_LENGTH }, () => ID_CHARACTERS[randomInt(ID_CHARACTERS.length)]).join('');
}
