import { expect, it } from 'vitest';
import { Turns } from '../../../src/gateway/matching/turns.js';

it('clients take turns, and of each what came first is first', () => {
  const turns = new Turns<string>();
  for (const entry of ['a1', 'a2', 'a3', 'b1', 'c1', 'b2']) turns.add(entry[0]!, entry);
  const order: (string | undefined)[] = [];
  while (turns.size > 0) order.push(turns.take(() => true));
  expect(order).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3']);
  expect(turns.take(() => true)).toBeUndefined();
});

it('what may not go is passed over, and keeps its place', () => {
  const turns = new Turns<string>();
  for (const entry of ['a1', 'a2', 'b1']) turns.add(entry[0]!, entry);
  expect(turns.take((entry) => entry !== 'a1')).toBe('a2');
  expect(turns.take((_entry, client) => client !== 'b')).toBe('a1');
  expect(turns.remove('b', 'b1')).toBe(true);
  expect(turns.remove('b', 'b1')).toBe(false);
  expect(turns.size).toBe(0);
});

it('the newest of who has the most gives way to one who would still have fewer', () => {
  const turns = new Turns<string>();
  for (const entry of ['a1', 'a2', 'a3', 'b1']) turns.add(entry[0]!, entry);
  expect(turns.crowding('a')).toBeUndefined();
  expect(turns.crowding('b')).toBe('a3');
  turns.remove('a', 'a3');
  expect(turns.crowding('b')).toBeUndefined();
  expect(turns.crowding('c')).toBe('a2');
});
