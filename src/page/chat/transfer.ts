import {
  type Conversation,
  DEFAULT_SETTINGS,
  type Message,
  newestLeaf,
  newId,
  SAMPLING,
  type Settings,
  titleOf,
} from './conversation.js';

/** Conversations in a file. */
export interface Exported {
  readonly format: 'rocmforge-conversations';
  readonly version: 1;
  readonly conversations: readonly { readonly conversation: Conversation; readonly messages: readonly Message[] }[];
}

export function exported(
  conversations: readonly { readonly conversation: Conversation; readonly messages: readonly Message[] }[],
): string {
  const file: Exported = { format: 'rocmforge-conversations', version: 1, conversations };
  return JSON.stringify(file, undefined, 1);
}

type Json = Readonly<Record<string, unknown>>;

const MOST_IMPORTED = 10_000;

/**
 * Conversations of a file, with new ids: an import never replaces what is there. Only known fields of the right type are taken.
 *
 * @throws Error if the text is not such a file
 */
export function imported(text: string): Exported['conversations'] {
  const file = objectOf(parsed(text), 'the file');
  if (file.format !== 'rocmforge-conversations' || file.version !== 1) {
    throw new Error('the file has no conversations of this page');
  }
  return listOf(file.conversations, 'conversations').map((entry) => {
    const { conversation, messages } = objectOf(entry, 'an entry of conversations');
    return importedOne(objectOf(conversation, 'conversation'), listOf(messages, 'messages'));
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`it is not JSON, or it is cut: ${(error as Error).message}`);
  }
}

function importedOne(given: Json, messages: readonly unknown[]): Exported['conversations'][number] {
  const id = newId();
  const objects = messages.map((one) => objectOf(one, 'an entry of messages'));
  const ids = new Map(objects.map((one) => [textOf(one.id), newId()]));
  const newIdOf = (old: unknown) => (typeof old === 'string' ? ids.get(old) : undefined);
  const created = numberOf(given.created, Date.now());
  const copies = objects.map((one) => importedMessage(one, id, newIdOf));
  const last = copies.at(-1)?.id;
  const conversation: Conversation = {
    id,
    title: titleOf(textOf(given.title)),
    created,
    updated: numberOf(given.updated, created),
    // A file that names no branch still has messages to show.
    leaf: newIdOf(given.leaf) ?? (last && newestLeaf(new Map(copies.map((one) => [one.id, one])), last)),
    settings: settingsOf(given.settings),
  };
  return { conversation, messages: copies };
}

function importedMessage(given: Json, conversation: string, newIdOf: (old: unknown) => string | undefined): Message {
  const { role, stats, toolCallId } = given;
  if (role !== 'user' && role !== 'assistant' && role !== 'tool') throw new Error('a message has an unknown role');
  return {
    id: newIdOf(given.id) ?? newId(),
    conversation,
    parent: newIdOf(given.parent),
    role,
    created: numberOf(given.created, 0),
    saved: 0,
    content: textOf(given.content),
    reasoning: textOf(given.reasoning),
    toolCalls: optionalList(given.toolCalls).map((call) => {
      const { id, name, args } = objectOf(call, 'a tool call');
      return { id: textOf(id), name: textOf(name), args: textOf(args) };
    }),
    toolCallId: typeof toolCallId === 'string' ? toolCallId : undefined,
    // The stream ended with the page that exported it.
    state: given.state === 'streaming' ? 'stopped' : stateOf(given.state),
    model: textOf(given.model),
    finish: typeof given.finish === 'string' ? given.finish : undefined,
    error: typeof given.error === 'string' ? given.error : undefined,
    marks: optionalList(given.marks).map((mark) => {
      const { part, at, ms } = objectOf(mark, 'a mark');
      const duration = typeof ms === 'number' ? { ms } : {};
      return { part: part === 'reasoning' ? 'reasoning' : 'content', at: Math.max(0, numberOf(at, 0)), ...duration };
    }),
    stats: isObject(stats) ? statsOf(stats) : undefined,
    choices: Array.isArray(given.choices) ? given.choices.map(choiceOf) : undefined,
  };
}

const STATS = [
  ...(['promptTokens', 'cachedTokens', 'tokens', 'reasoningTokens'] as const),
  ...(['tokensPerSecond', 'firstTokenMs', 'drafted', 'accepted'] as const),
];

/** The numbers of an answer, if the file has all of them. */
function statsOf(given: Json): Message['stats'] {
  const isWhole = STATS.every((name) => Number.isFinite(given[name]));
  return isWhole ? (given as unknown as Message['stats']) : undefined;
}

const stateOf = (value: unknown): Message['state'] => (value === 'stopped' || value === 'failed' ? value : 'complete');

function choiceOf(value: unknown): NonNullable<Message['choices']>[number] {
  const { text, logprob, top } = objectOf(value, 'a token');
  const pairs = optionalList(top).map((pair) => {
    const [token, number] = listOf(pair, 'an alternative');
    return [textOf(token), numberOf(number, 0)] as const;
  });
  return { text: textOf(text), logprob: numberOf(logprob, 0), top: pairs };
}

function settingsOf(given: unknown): Settings {
  if (!isObject(given)) return DEFAULT_SETTINGS;
  const { constraint, sampling, thinking } = given;
  const { kind, text } = isObject(constraint) ? constraint : { kind: '', text: '' };
  const values = isObject(sampling) ? sampling : {};
  return {
    model: textOf(given.model),
    system: textOf(given.system),
    sampling: Object.fromEntries(SAMPLING.map(([name]) => [name, textOf(values[name])])),
    constraint: { kind: kind === 'schema' || kind === 'grammar' ? kind : '', text: textOf(text) },
    tools: textOf(given.tools),
    thinking: thinking === 'on' || thinking === 'off' ? thinking : '',
    logprobs: given.logprobs === true,
  };
}

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');
const numberOf = (value: unknown, otherwise: number): number =>
  typeof value === 'number' && Number.isFinite(value) ? value : otherwise;
const optionalList = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

function objectOf(value: unknown, what: string): Json {
  if (isObject(value)) return value;
  throw new Error(`${what} must be an object`);
}

function listOf(value: unknown, what: string): readonly unknown[] {
  if (Array.isArray(value) && value.length <= MOST_IMPORTED) return value;
  throw new Error(`${what} must be a list of at most ${MOST_IMPORTED}`);
}
