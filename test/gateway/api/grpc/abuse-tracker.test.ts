import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { AbuseTracker, MOST_PEERS } from '../../../../src/gateway/api/grpc/abuse-tracker.js';

/** Connections that bring nothing until a peer is refused. */
const FRUITLESS = 50;

let abuse: AbuseTracker;
beforeEach(() => {
  // Buckets fill by the clock.
  vi.useFakeTimers({ toFake: ['performance'] });
  abuse = new AbuseTracker({ hold: () => true, letGo: () => undefined });
});
afterEach(() => vi.useRealTimers());

/** Connections of a peer that end one after the other. */
function come(peer: string, count: number, hadAnswer = false): void {
  for (let i = 0; i < count; i++) abuse.begun(peer)(hadAnswer);
}
/** Addresses of one network, of which each comes once. */
function othersCome(count: number, network = 'other'): void {
  for (let i = 0; i < count; i++) come(`${network}:${i}`, 1);
}

it('refuses a peer whose connections brought nothing however many others come after it', () => {
  come('flooder', FRUITLESS);
  expect(abuse.has('flooder')).toBe(true);
  for (let round = 0; round < 4; round++) othersCome(MOST_PEERS, `round ${round}`);
  expect(abuse.has('flooder')).toBe(true);
});

it('refuses a peer that violated however many others come after it', () => {
  for (let i = 0; i < 5; i++) abuse.violated('flooder');
  othersCome(3 * MOST_PEERS);
  expect(abuse.has('flooder')).toBe(true);
});

it('writes down what was open while others came in between', () => {
  const ends = Array.from({ length: FRUITLESS }, () => abuse.begun('flooder'));
  othersCome(2 * MOST_PEERS);
  for (const ended of ends) ended(false);
  expect(abuse.has('flooder')).toBe(true);
});

it('forgets the oldest of those that are not refused', () => {
  come('older', FRUITLESS - 1);
  come('later', FRUITLESS - 1);
  othersCome(MOST_PEERS - 2);
  abuse.begun('newest')(true);
  for (const peer of ['later', 'older']) come(peer, 1);
  expect(['older', 'later'].map((peer) => abuse.has(peer))).toEqual([false, true]);
});

it('where all are refused forgets the oldest and keeps those that came after', () => {
  for (let i = 0; i < MOST_PEERS + 1; i++) come(`flooder ${i}`, FRUITLESS);
  expect(abuse.has('flooder 0')).toBe(false);
  expect(abuse.has('flooder 1')).toBe(true);
  expect(abuse.has(`flooder ${MOST_PEERS}`)).toBe(true);
});

it('lets a peer in again once its time is over, though nothing else made room', () => {
  come('flooder', FRUITLESS);
  othersCome(MOST_PEERS - 1);
  vi.advanceTimersByTime(1000);
  expect(abuse.has('flooder')).toBe(false);
});
