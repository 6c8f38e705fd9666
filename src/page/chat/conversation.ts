/** Place at which an executor was lost, and how long it took until the text continued. */
export interface RecoveryMark {
  readonly part: 'content' | 'reasoning';
  /** Offset in the text of that part, in UTF-16 units. */
  readonly at: number;
  /** Milliseconds; absent: it has not continued. */
  readonly ms?: number;
}

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** Arguments as the model wrote them. */
  readonly args: string;
}

/** A token of an answer with its log probability and the likeliest alternatives. */
export interface TokenChoice {
  readonly text: string;
  readonly logprob: number;
  readonly top: readonly (readonly [text: string, logprob: number])[];
}

/** Numbers under an answer. */
export interface AnswerStats {
  readonly promptTokens: number;
  /** Prompt tokens found in the prefix cache. */
  readonly cachedTokens: number;
  readonly tokens: number;
  readonly reasoningTokens: number;
  readonly tokensPerSecond: number;
  /** Milliseconds from sending the request to the first token. */
  readonly firstTokenMs: number;
  /** Draft tokens computed and accepted. */
  readonly drafted: number;
  readonly accepted: number;
}

/**
 * - streaming: a tab receives it
 * - complete: the server ended it
 * - stopped: by its reader, or the page was closed
 * - failed: see `error`
 */
export type MessageState = 'streaming' | 'complete' | 'stopped' | 'failed';

/** A node of a conversation: alternatives to a message have the same parent. */
export interface Message {
  readonly id: string;
  readonly conversation: string;
  /** Absent: the first. */
  readonly parent?: string | undefined;
  readonly role: 'user' | 'assistant' | 'tool';
  /** Milliseconds since 1970; siblings are in this order. */
  readonly created: number;
  /** The last time that it was saved, by which other tabs see that its tab is alive. */
  readonly saved: number;
  readonly content: string;
  readonly reasoning: string;
  readonly toolCalls: readonly ToolCall[];
  /** The call that a tool's result belongs to. */
  readonly toolCallId?: string | undefined;
  readonly state: MessageState;
  readonly model: string;
  readonly finish?: string | undefined;
  readonly error?: string | undefined;
  readonly marks: readonly RecoveryMark[];
  readonly stats?: AnswerStats | undefined;
  readonly choices?: readonly TokenChoice[] | undefined;
}

/** Names of sampling parameters in requests; a value is the text of its field, and empty for the server's default. */
export const SAMPLING = [
  ['temperature', 'Temperature'],
  ['top_p', 'Top p'],
  ['top_k', 'Top k'],
  ['min_p', 'Min p'],
  ['repetition_penalty', 'Repetition penalty'],
  ['presence_penalty', 'Presence penalty'],
  ['frequency_penalty', 'Frequency penalty'],
  ['max_tokens', 'Max tokens'],
  ['seed', 'Seed'],
  ['stop', 'Stop strings'],
] as const;

export type SamplingName = (typeof SAMPLING)[number][0];

/** Settings of a conversation. */
export interface Settings {
  readonly model: string;
  readonly system: string;
  readonly sampling: Readonly<Partial<Record<SamplingName, string>>>;
  readonly constraint: { readonly kind: '' | 'schema' | 'grammar'; readonly text: string };
  /** JSON array of tools; empty: none. */
  readonly tools: string;
  readonly thinking: '' | 'on' | 'off';
  readonly logprobs: boolean;
}

export const DEFAULT_SETTINGS: Settings = {
  model: '',
  system: '',
  sampling: {},
  constraint: { kind: '', text: '' },
  tools: '',
  thinking: '',
  logprobs: false,
};

export interface Conversation {
  readonly id: string;
  readonly title: string;
  readonly created: number;
  readonly updated: number;
  /** The last message of the branch that is shown. */
  readonly leaf?: string | undefined;
  readonly settings: Settings;
}

export type Messages = ReadonlyMap<string, Message>;

/** A random id. `crypto.randomUUID` is missing on pages without TLS. */
export const newId = (): string =>
  Array.from(crypto.getRandomValues(new Uint32Array(4)), (word) => word.toString(16).padStart(8, '0')).join('');

/** Messages from the first one to a leaf. */
export function pathTo(messages: Messages, leaf: string | undefined): readonly Message[] {
  const path: Message[] = [];
  const seen = new Set<string>();
  for (let id = leaf; id !== undefined && !seen.has(id); ) {
    seen.add(id);
    const message = messages.get(id);
    if (message === undefined) break;
    path.push(message);
    id = message.parent;
  }
  return path.reverse();
}

/** A message and its alternatives, the oldest first. */
export function siblingsOf(messages: Messages, { parent }: Pick<Message, 'parent'>): readonly Message[] {
  return childrenOf(messages, parent);
}

function childrenOf(messages: Messages, parent: string | undefined): readonly Message[] {
  const children = [...messages.values()].filter((message) => message.parent === parent);
  return children.sort((a, b) => a.created - b.created || (a.id < b.id ? -1 : 1));
}

/** The newest leaf below a message. */
export function newestLeaf(messages: Messages, id: string): string {
  const seen = new Set<string>();
  let leaf = id;
  while (!seen.has(leaf)) {
    seen.add(leaf);
    const next = childrenOf(messages, leaf).at(-1);
    if (next === undefined) return leaf;
    leaf = next.id;
  }
  return leaf;
}

const MOST_TITLE_CHARACTERS = 60;
/** Characters that a title is looked for in. */
const TITLE_SOURCE = 2000;

/** Title of a conversation that begins with a text. */
export function titleOf(text: string): string {
  const line = text.trimStart().slice(0, TITLE_SOURCE).trimEnd().replace(/\s+/g, ' ');
  return line.length > MOST_TITLE_CHARACTERS ? `${line.slice(0, MOST_TITLE_CHARACTERS - 1)}…` : line || 'New chat';
}
