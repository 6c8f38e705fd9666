import { describe, expect, it } from 'vitest';
import { PeerQueue } from '../../../../src/gateway/replica/scheduler/peer-queue.js';
import { sequenceOf } from '../../../support/scheduler-world.js';

const of = (peer: string, priority = 0) => sequenceOf([1, 2, 3], 8, { peer, priority });

describe('a sequence that waits again, after a preemption or a lost executor,', () => {
  it('is in front of all of its peer that came later', () => {
    const queue = new PeerQueue();
    const [first, second, third] = [of('a'), of('a'), of('a')];
    for (const sequence of [first, second, third]) queue.add(sequence);
    for (const sequence of [first, second]) queue.remove(sequence);
    queue.add(second);
    queue.add(first);
    expect(queue.waitingSequences('a')).toEqual([first, second, third]);
    expect(queue.next(() => true)).toBe(first);
  });

  it('is behind what is more urgent, and in front of what is less, whenever that came', () => {
    const queue = new PeerQueue();
    const [low, middle, high] = [of('a', -1), of('a', 0), of('a', 1)];
    const later = of('a', 0);
    for (const sequence of [low, high, later, middle]) queue.add(sequence);
    expect(queue.waitingSequences('a')).toEqual([high, middle, later, low]);
  });

  it('keeps its place when all are taken at once', () => {
    const queue = new PeerQueue();
    const all = [of('a'), of('b'), of('a'), of('b')];
    for (const sequence of all.toReversed()) queue.add(sequence);
    expect(queue.takeAll()).toEqual(all);
    expect([queue.size, queue.tokens, queue.peerCount]).toEqual([0, 0, 0]);
  });
});
