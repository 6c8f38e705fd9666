import { type DBSchema, type IDBPDatabase, openDB } from 'idb';
import { basePath } from '../server/address.js';
import type { Conversation, Message } from './conversation.js';

interface Schema extends DBSchema {
  conversations: { key: string; value: Conversation };
  messages: { key: string; value: Message; indexes: { conversation: string } };
}

const NAME = `rocmforge:${basePath}`;
const VERSION = 1;

let opened: Promise<IDBPDatabase<Schema>> | undefined;

function open(): Promise<IDBPDatabase<Schema>> {
  opened ??= openDB<Schema>(NAME, VERSION, {
    upgrade(database) {
      database.createObjectStore('conversations', { keyPath: 'id' });
      database.createObjectStore('messages', { keyPath: 'id' }).createIndex('conversation', 'conversation');
    },
    // Another tab has a newer version of the page.
    blocking: (_current, _blocked, event) => (event.target as IDBDatabase).close(),
  });
  return opened;
}

/** Conversations, the latest first. @throws DOMException where the browser keeps nothing */
export async function readConversations(): Promise<readonly Conversation[]> {
  const all = await (await open()).getAll('conversations');
  return all.sort((a, b) => b.updated - a.updated);
}

export async function readConversation(id: string): Promise<Conversation | undefined> {
  return (await open()).get('conversations', id);
}

export async function readMessages(conversation: string): Promise<readonly Message[]> {
  return (await open()).getAllFromIndex('messages', 'conversation', conversation);
}

export async function writeConversation(conversation: Conversation): Promise<void> {
  await (await open()).put('conversations', conversation);
}

/** Writes several at once, all or none. */
export async function writeMessages(messages: readonly Message[]): Promise<void> {
  const transaction = (await open()).transaction('messages', 'readwrite');
  await Promise.all([...messages.map((message) => transaction.store.put(message)), transaction.done]);
}

export async function deleteConversation(id: string): Promise<void> {
  const transaction = (await open()).transaction(['conversations', 'messages'], 'readwrite');
  const messages = transaction.objectStore('messages');
  const ids = await messages.index('conversation').getAllKeys(id);
  await Promise.all([
    transaction.objectStore('conversations').delete(id),
    ...ids.map((message) => messages.delete(message)),
    transaction.done,
  ]);
}
