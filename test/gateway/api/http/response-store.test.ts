import { expect, it } from 'vitest';
import { ResponseStore } from '../../../../src/gateway/api/http/openai/responses-store.js';
import { ChatMessage } from '../../../../src/shared/generated/rocmforge/v1/inference.js';

const response = (id: string, characters = 0) => ({
  ...{ id: `resp_${id}`, json: 'x'.repeat(characters), output: [{ id: `msg_${id}_0`, type: 'message' }] },
  turn: ChatMessage.fromPartial({ role: 'assistant', content: id }),
});
const question = ChatMessage.fromPartial({ role: 'user', content: 'q' });
const isThere = (store: ResponseStore, client: string, id: string): boolean => {
  try {
    return store.get(client, `resp_${id}`).id === `resp_${id}`;
  } catch (error) {
    expect(error).toMatchObject({ reason: 'RESPONSE_NOT_FOUND' });
    return false;
  }
};

it('keeps conversations with their outputs, and tells them to none but their client', () => {
  const store = new ResponseStore();
  store.put('a', response('1'), [question]);
  const { turns, items } = store.resolve('a', { responseId: 'resp_1', itemIds: ['msg_1_0'] });
  expect(turns.map(({ content }) => content)).toEqual(['q', '1']);
  expect(items).toEqual({ msg_1_0: { id: 'msg_1_0', type: 'message' } });
  expect(isThere(store, 'b', '1')).toBe(false);
  expect(() => store.resolve('b', { responseId: undefined, itemIds: ['msg_1_0'] })).toThrow('not stored');
  expect(() => store.delete('b', 'resp_1')).toThrow('not stored');
  store.delete('a', 'resp_1');
  expect(isThere(store, 'a', '1')).toBe(false);
});

it('drops the oldest of a client beyond its number and bytes', () => {
  const store = new ResponseStore({ bytes: 1 << 20, bytesOfClient: 10_000, responsesOfClient: 3 });
  store.put('b', response('other'), []);
  for (const id of ['1', '2', '3', '4']) store.put('a', response(id), []);
  expect(['1', '2', '3', '4'].map((id) => isThere(store, 'a', id))).toEqual([false, true, true, true]);
  store.put('a', response('5', 4300), []);
  expect(['2', '3', '4', '5'].map((id) => isThere(store, 'a', id))).toEqual([false, false, true, true]);
  store.put('a', response('6', 9000), []);
  expect(isThere(store, 'a', '6')).toBe(false);
  expect(isThere(store, 'b', 'other')).toBe(true);
});

it('drops the oldest of all beyond the bytes of all', () => {
  const store = new ResponseStore({ bytes: 4000, bytesOfClient: 4000, responsesOfClient: 9 });
  for (const client of ['a', 'b', 'c']) store.put(client, response(client, 500), []);
  expect(['a', 'b', 'c'].map((client) => isThere(store, client, client))).toEqual([false, true, true]);
});
