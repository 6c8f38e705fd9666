import { ChatMessage } from '../../../../shared/generated/rocmforge/v1/inference.js';
import { Fields, TEXT_OR_PARTS } from '../fields.js';
import { separatorOf } from '../text-parts.js';
import { CUSTOM_INPUT, type StoredContext } from './responses-form.js';

/** The ids of items that an input refers to. */
export function referencesOf(fields: Fields): readonly string[] {
  if (!Array.isArray(fields.any('input'))) return [];
  return (fields.objects('input') ?? [])
    .filter((item) => item.any('type') === 'item_reference')
    .map((item) => item.string('id') ?? item.refuse('id', 'is missing'));
}

/**
 * The turns of an `input`: a text, or items. Reasoning, a message and calls that follow each other are one turn of the
 * assistant.
 *
 * @throws RocmForgeError `INVALID_FIELD`, naming the field
 */
export function responsesInput(fields: Fields, stored: Pick<StoredContext, 'items'>): readonly ChatMessage[] {
  const given = fields.any('input');
  if (given === undefined) return [];
  if (typeof given === 'string') return [ChatMessage.fromPartial({ role: 'user', content: given })];
  const turns = new Turns();
  for (const item of fields.objects('input', 'a string or a list of items') ?? []) readItem(item, turns, stored);
  return turns.all;
}

/** Turns in the making. */
class Turns {
  readonly all: ChatMessage[] = [];
  /** The assistant's, while it may go on. */
  private open: ChatMessage | undefined;

  add(turn: Partial<ChatMessage>): void {
    this.open = undefined;
    this.all.push(ChatMessage.fromPartial(turn));
  }

  /** The assistant's turn that what comes next is a part of. @param canFollow whether it may come behind what is there */
  assistant(canFollow: (turn: ChatMessage) => boolean): ChatMessage {
    if (this.open === undefined || !canFollow(this.open)) {
      this.open = ChatMessage.fromPartial({ role: 'assistant' });
      this.all.push(this.open);
    }
    return this.open;
  }
}

/** Further fields of an item that clients send back. */
const OF_ITEMS = ['id', 'status', 'phase', 'namespace', 'created_by'] as const;

function readItem(item: Fields, turns: Turns, stored: Pick<StoredContext, 'items'>): void {
  const type = item.string('type') ?? 'message';
  if (type === 'item_reference') {
    const id = item.string('id') as string;
    const found = stored.items[id];
    if (found === undefined)
      item.refuse('id', `"${id.slice(0, 64)}" is not stored here (any more); send the item itself`);
    readItem(new Fields(found), turns, stored);
    return;
  }
  const supported = Object.keys(READERS).join(', ');
  const unknown = (): never => item.refuse('type', `is ${JSON.stringify(type.slice(0, 64))}; supported: ${supported}`);
  const read = (Object.hasOwn(READERS, type) ? READERS[type] : undefined) ?? unknown();
  read(item, turns);
  item.ignore(...OF_ITEMS);
  item.end();
}

const READERS: Readonly<Record<string, (item: Fields, turns: Turns) => void>> = {
  message: (item, turns) => {
    const role = item.string('role') ?? item.refuse('role', 'is missing');
    const content = textOf(item, 'content', role);
    if (role !== 'assistant') turns.add({ role, content });
    else turns.assistant((turn) => turn.content === '' && turn.toolCalls.length === 0).content = content;
  },
  reasoning: (item, turns) => {
    const reasoning = reasoningOf(item);
    turns.assistant((turn) => turn.content === '' && turn.toolCalls.length === 0).reasoning += reasoning;
  },
  function_call: (item, turns) => {
    const argumentsJson = item.string('arguments') ?? '';
    turns.assistant(() => true).toolCalls.push({ ...callOf(item), argumentsJson });
  },
  custom_tool_call: (item, turns) => {
    const input = item.string('input') ?? '';
    turns
      .assistant(() => true)
      .toolCalls.push({ ...callOf(item), argumentsJson: JSON.stringify({ [CUSTOM_INPUT]: input }) });
  },
  function_call_output: (item, turns) => turns.add(outputOf(item)),
  custom_tool_call_output: (item, turns) => turns.add(outputOf(item)),
};

function callOf(item: Fields): { readonly id: string; readonly name: string } {
  return {
    id: item.string('call_id') ?? item.refuse('call_id', 'is missing'),
    name: item.string('name') ?? item.refuse('name', 'is missing'),
  };
}

function outputOf(item: Fields): Partial<ChatMessage> {
  item.ignore('name');
  const toolCallId = item.string('call_id') ?? item.refuse('call_id', 'is missing');
  return { role: 'tool', toolCallId, content: textOf(item, 'output', 'tool') };
}

/** Types of parts that are texts, and the field of each. */
const TEXT_PARTS: ReadonlyMap<string | undefined, string> = new Map([
  ['input_text', 'text'],
  ['output_text', 'text'],
  ['text', 'text'],
  ['refusal', 'refusal'],
]);

/** A text, or parts that are texts. */
function textOf(item: Fields, name: string, role: string): string {
  const given = item.any(name);
  if (given === undefined || typeof given === 'string') return given ?? '';
  const texts = (item.objects(name, TEXT_OR_PARTS) ?? []).map((part) => {
    const type = part.string('type');
    const of = TEXT_PARTS.get(type) ?? part.refuse('type', `is ${JSON.stringify(type)}; only text input is supported`);
    const text = part.string(of) ?? part.refuse(of, 'is missing');
    part.ignore('annotations', 'logprobs');
    part.end();
    return text;
  });
  return texts.join(separatorOf(role));
}

/** Reasoning: the content, or its replacement if a client kept nothing else. */
function reasoningOf(item: Fields): string {
  const partsOf = (name: string): string =>
    (item.objects(name) ?? [])
      .map((part) => {
        part.ignore('type');
        const text = part.string('text') ?? '';
        part.end();
        return text;
      })
      .join('');
  const content = partsOf('content');
  const summary = partsOf('summary');
  const encrypted = item.string('encrypted_content');
  return content || decodedReasoning(encrypted) || summary;
}

const PREFIX = 'rocmforge1.';

/** Reasoning as `encrypted_content`: nothing in it is secret from the client, which was sent the same text. */
export const encodedReasoning = (text: string): string => `${PREFIX}${Buffer.from(text).toString('base64url')}`;

/** Text that {@link encodedReasoning} has encoded; empty for text that another server has encrypted. */
function decodedReasoning(encoded = ''): string {
  return encoded.startsWith(PREFIX) ? Buffer.from(encoded.slice(PREFIX.length), 'base64url').toString() : '';
}
