import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { MOST_PEERS, Offenders } from '../../../../src/gateway/api/grpc/offenders.js';

/** Connections that bring nothing until a peer is refused. */
const FRUITLESS = 50;

let offenders: Offenders;
beforeEach(() => {
  // Buckets fill by the clock.
  vi.useFakeTimers({ toFake: ['performance'] });
  offenders = new Offenders({ hold: () => true, letGo: () => undefined });
});
afterEach(() => vi.useRealTimers());

/** Connections of a peer that end one after the other. */
function come(peer: string, count: number, hadAnswer = false): void {
  for (let i = 0; i < count; i++) offenders.begun(peer)(hadAnswer);
}
/** Addresses of one network, of which each comes once. */
function othersCome(count: number, network = 'other'): void {
  for (let i = 0; i < count; i++) come(`${network}:${i}`, 1);
}

it('refuses a peer whose connections brought nothing however many others come after it', () => {
  come('flooder', FRUITLESS);
  expect(offenders.has('flooder')).toBe(true);
  for (let round = 0; round < 4; round++) othersCome(MOST_PEERS, `round ${round}`);
  expect(offenders.has('flooder')).toBe(true);
});

it('refuses a peer that offended however many others come after it', () => {
  for (let i = 0; i < 5; i++) offenders.offended('flooder');
  othersCome(3 * MOST_PEERS);
  expect(offenders.has('flooder')).toBe(true);
});

it('writes down what was open while others came in between', () => {
  const ends = Array.from({ length: FRUITLESS }, () => offenders.begun('flooder'));
  othersCome(2 * MOST_PEERS);
  for (const ended of ends) ended(false);
  expect(offenders.has('flooder')).toBe(true);
});

it('forgets the oldest of those that are not refused', () => {
  come('older', FRUITLESS - 1);
  come('later', FRUITLESS - 1);
  othersCome(MOST_PEERS - 2);
  offenders.begun('newest')(true);
  for (const peer of ['later', 'older']) come(peer, 1);
  expect(['older', 'later'].map((peer) => offenders.has(peer))).toEqual([false, true]);
});

it('where all are refused forgets the oldest and keeps those that came after', () => {
  for (let i = 0; i < MOST_PEERS + 1; i++) come(`flooder ${i}`, FRUITLESS);
  expect(offenders.has('flooder 0')).toBe(false);
  expect(offenders.has('flooder 1')).toBe(true);
  expect(offenders.has(`flooder ${MOST_PEERS}`)).toBe(true);
});

it('lets a peer in again once its time is over, though nothing else made room', () => {
  come('flooder', FRUITLESS);
  othersCome(MOST_PEERS - 1);
  vi.advanceTimersByTime(1000);
  expect(offenders.has('flooder')).toBe(false);
});
