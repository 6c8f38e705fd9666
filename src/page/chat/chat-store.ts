import { batch, computed, signal } from '@preact/signals';
import { basePath } from '../server/address.js';
import { models } from '../server/server-store.js';
import { runAnswer } from './answer-run.js';
import {
  type Conversation,
  DEFAULT_SETTINGS,
  type Message,
  type Messages,
  newestLeaf,
  newId,
  pathTo,
  type Settings,
  siblingsOf,
  titleOf,
} from './conversation.js';
import * as database from './database.js';
import { forget, recall, remember } from './tab-storage.js';
import { exported, imported } from './transfer.js';

/** Time without a save after which a message that streams belongs to a tab that was closed. */
const LOST_TAB_MS = 4000;

export const conversations = signal<readonly Conversation[]>([]);
/** The conversation that is shown; a new one is kept with its first message. */
export const current = signal<Conversation>(newConversationOf(DEFAULT_SETTINGS));
export const messages = signal<Messages>(new Map());
export const path = computed(() => pathTo(messages.value, current.value.leaf));
/** The model that answers: the chosen one if it is served, else the first. */
export const modelName = computed(() => {
  const chosen = current.value.settings.model;
  return models.value.some(({ id }) => id === chosen) ? chosen : (models.value[0]?.id ?? '');
});
/** Why nothing can be kept, if so. */
export const storageProblem = signal('');
/** Announcement for screen readers. */
export const announcement = signal('');

/** Time that the browser has to keep a message before it is answered. */
const KEEP_MS = 500;

/** Answers that this tab receives. */
const running = new Map<string, AbortController>();
export const isRunning = computed(() => path.value.some(({ state }) => state === 'streaming'));
/** Their latest state, which is newer than the one that is saved. */
const live = new Map<string, Message>();

const channel = new BroadcastChannel(`rocmforge:${basePath}`);
channel.addEventListener('message', ({ data }: MessageEvent<string>) => void changedElsewhere(data));

function newConversationOf(settings: Settings): Conversation {
  const now = Date.now();
  return { id: newId(), title: 'New chat', created: now, updated: now, settings };
}

/** Another tab has changed a conversation. */
async function changedElsewhere(id: string): Promise<void> {
  conversations.value = await kept(database.readConversations(), []);
  if (id !== current.value.id) return;
  // A duplicated tab has a copy of what the first remembers: that one receives the answer, and saves it.
  const copied = recall('answer');
  if (copied !== undefined && !running.has(copied)) forget('answer');
  const saved = await kept(database.readConversation(id), undefined);
  if (saved === undefined) startConversation();
  else await show({ ...saved, leaf: isRunning.value && live.size > 0 ? current.value.leaf : saved.leaf });
}

/** Reads what is kept. */
export async function start(): Promise<void> {
  const saved = await kept(database.readConversations(), []);
  const [latest] = saved;
  // A message may have been sent meanwhile.
  const begun = conversations.value.filter(({ id }) => !saved.some((one) => one.id === id));
  conversations.value = [...begun, ...saved];
  if (messages.value.size > 0) return;
  if (latest !== undefined) {
    current.value = { ...current.value, settings: { ...latest.settings, system: '', tools: '' } };
  }
  const id = recall('conversation');
  if (id !== undefined && conversations.value.some((one) => one.id === id)) await openConversation(id);
}

async function kept<T>(result: Promise<T>, otherwise: T): Promise<T> {
  try {
    return await result;
  } catch (error) {
    storageProblem.value = `Conversations are not kept: ${(error as Error).message}`;
    return otherwise;
  }
}

export function startConversation(): void {
  if (messages.value.size === 0) return;
  forget('conversation');
  batch(() => {
    current.value = newConversationOf(current.value.settings);
    messages.value = new Map();
  });
}

export async function openConversation(id: string): Promise<void> {
  const conversation = conversations.value.find((one) => one.id === id);
  if (conversation === undefined) return;
  remember('conversation', id);
  await show(conversation);
}

async function show(conversation: Conversation): Promise<void> {
  const saved = await kept(database.readMessages(conversation.id), []);
  const shown = saved.map((message) => live.get(message.id) ?? withoutLostTab(message));
  batch(() => {
    current.value = conversation;
    messages.value = new Map(shown.map((message) => [message.id, message]));
  });
  // Its tab may have been closed a moment ago.
  if (shown.some(({ id, state }) => state === 'streaming' && !running.has(id))) {
    setTimeout(() => {
      if (current.value.id === conversation.id) void show(current.value);
    }, LOST_TAB_MS);
  }
}

function withoutLostTab(message: Message): Message {
  const isLost = message.state === 'streaming' && Date.now() - message.saved > LOST_TAB_MS;
  return isLost || isOfThisTab(message) ? { ...message, state: 'stopped' } : message;
}

/** A message that this tab received before it was loaded again. */
const isOfThisTab = ({ id, state }: Message): boolean =>
  state === 'streaming' && !running.has(id) && recall('answer') === id;

/** Changes the settings of the conversation. */
export function changeSettings(change: Partial<Settings>): void {
  changeConversation({ settings: { ...current.value.settings, ...change } });
}

function changeConversation(change: Partial<Conversation>): void {
  current.value = { ...current.value, ...change };
  if (messages.value.size > 0) void saveConversation();
}

async function saveConversation(): Promise<void> {
  const conversation = { ...current.value, updated: Date.now() };
  const others = conversations.value.filter(({ id }) => id !== conversation.id);
  batch(() => {
    current.value = conversation;
    conversations.value = [conversation, ...others];
  });
  remember('conversation', conversation.id);
  await kept(database.writeConversation(conversation), undefined);
  channel.postMessage(conversation.id);
}

export async function renameConversation(id: string, title: string): Promise<void> {
  const conversation = conversations.value.find((one) => one.id === id);
  if (conversation === undefined) return;
  const renamed = { ...conversation, title: titleOf(title) };
  conversations.value = conversations.value.map((one) => (one.id === id ? renamed : one));
  if (current.value.id === id) current.value = { ...current.value, title: renamed.title };
  await kept(database.writeConversation(renamed), undefined);
  channel.postMessage(id);
}

export async function deleteConversation(id: string): Promise<void> {
  for (const { id: message, conversation } of live.values()) if (conversation === id) running.get(message)?.abort();
  conversations.value = conversations.value.filter((one) => one.id !== id);
  if (current.value.id === id) startConversation();
  await kept(database.deleteConversation(id), undefined);
  channel.postMessage(id);
}

/** All conversations, or one, as the text of a file. */
export async function exportConversations(id?: string): Promise<string> {
  const wanted = conversations.value.filter((one) => id === undefined || one.id === id);
  const whole = await Promise.all(
    wanted.map(async (conversation) => ({ conversation, messages: await database.readMessages(conversation.id) })),
  );
  return exported(whole);
}

/** @returns the number of conversations that were added. @throws Error if the text is not an export */
export async function importConversations(text: string): Promise<number> {
  const added = imported(text);
  for (const { conversation, messages: all } of added) {
    await database.writeMessages(all);
    await database.writeConversation(conversation);
    channel.postMessage(conversation.id);
  }
  conversations.value = await kept(database.readConversations(), []);
  return added.length;
}

function newMessage(parts: Pick<Message, 'role' | 'parent'> & Partial<Message>): Message {
  const now = Date.now();
  return {
    ...{ id: newId(), conversation: current.value.id, created: now, saved: now, content: '', reasoning: '' },
    ...{ toolCalls: [], marks: [], state: 'complete' as const, model: '' },
    ...parts,
  };
}

/** Shows a message, if its conversation is shown, and keeps it. */
async function put(...changed: readonly Message[]): Promise<void> {
  const shown = changed.filter(({ conversation }) => conversation === current.value.id);
  if (shown.length > 0) messages.value = new Map([...messages.value, ...shown.map((one) => [one.id, one] as const)]);
  await kept(database.writeMessages(changed), undefined);
}

/** Adds messages to the branch that is shown and has them answered, whatever the browser takes to keep them. */
async function addAndAnswer(added: readonly Message[]): Promise<void> {
  const first = added[0];
  const isNew = messages.value.size === 0;
  void put(...added);
  const leaf = added.at(-1)?.id;
  current.value = { ...current.value, leaf, ...(isNew && first && { title: titleOf(first.content) }) };
  await answer(leaf);
}

/** Sends a text as the next message. */
export async function send(text: string): Promise<void> {
  if (text.trim() === '' || isRunning.value) return;
  await addAndAnswer([newMessage({ role: 'user', parent: current.value.leaf, content: text })]);
}

/** Sends the results of an answer's tool calls, in their order. */
export async function sendResults({ id, toolCalls }: Message, results: readonly string[]): Promise<void> {
  let parent = id;
  const added = toolCalls.map((call, i) => {
    const message = newMessage({ role: 'tool', parent, toolCallId: call.id, content: results[i] ?? '' });
    parent = message.id;
    return message;
  });
  await addAndAnswer(added);
}

/** Adds a new answer to a message. */
async function answer(parent: string | undefined): Promise<void> {
  const message = newMessage({ role: 'assistant', parent, state: 'streaming', model: modelName.value });
  const isKept = put(message);
  current.value = { ...current.value, leaf: message.id };
  await briefly(isKept, saveConversation());
  await receive(message);
}

/** Waits until all is kept: a page that is left now finds it again. A browser that is slow to write holds nothing up for long. */
const briefly = (...kept: readonly Promise<void>[]): Promise<unknown> =>
  Promise.race([Promise.all(kept), new Promise((resolve) => setTimeout(resolve, KEEP_MS))]);

/** Another answer to the same message. */
export async function regenerate({ parent }: Message): Promise<void> {
  if (!isRunning.value) await answer(parent);
}

/** Another version of a message; one of the user is answered again. */
export async function edit(message: Message, content: string): Promise<void> {
  if (isRunning.value) return;
  const { role, parent, toolCallId, model } = message;
  const edited = newMessage({ role, parent, content, toolCallId, model });
  if (role !== 'assistant') return addAndAnswer([edited]);
  void put(edited);
  changeConversation({ leaf: edited.id });
}

/** Continues an answer that was cut. */
export async function continueAnswer(message: Message): Promise<void> {
  if (isRunning.value) return;
  // Without content there is nothing that the server could continue: the answer begins anew.
  const begins = message.content === '' && { reasoning: '', marks: [], choices: undefined, stats: undefined };
  const begun: Message = { ...message, ...begins, state: 'streaming', error: undefined, finish: undefined };
  await briefly(put(begun));
  await receive(begun);
}

async function receive(message: Message): Promise<void> {
  const controller = new AbortController();
  const { settings } = current.value;
  running.set(message.id, controller);
  remember('answer', message.id);
  announcement.value = 'The answer begins.';
  let isSaved = Promise.resolve();
  await runAnswer(message, {
    settings,
    model: modelName.value,
    path: pathTo(messages.value, message.id),
    signal: controller.signal,
    show: (next) => {
      live.set(next.id, next);
      if (next.conversation === current.value.id) messages.value = new Map(messages.value).set(next.id, next);
    },
    save: (next) => {
      isSaved = kept(database.writeMessages([next]), undefined).then(() => channel.postMessage(next.conversation));
    },
    announce: (text) => {
      announcement.value = text;
    },
  });
  await isSaved;
  running.delete(message.id);
  live.delete(message.id);
}

/** Stops the answers of this tab in the conversation that is shown. */
export function stop(): void {
  for (const { id } of path.value) running.get(id)?.abort();
}

/** Shows another version of a message. @param step -1 or 1 */
export function switchBranch(message: Message, step: number): void {
  const all = siblingsOf(messages.value, message);
  const other = all[all.findIndex(({ id }) => id === message.id) + step];
  if (other !== undefined) changeConversation({ leaf: newestLeaf(messages.value, other.id) });
}
