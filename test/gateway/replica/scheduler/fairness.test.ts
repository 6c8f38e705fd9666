import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { idleFor } from '../../../../src/gateway/replica/scheduler/preemption.js';
import { fairShare } from '../../../../src/gateway/replica/scheduler/step-rows.js';
import type { Sequence } from '../../../../src/gateway/request/sequence.js';
import { runs, scaled, seed } from '../../../support/run-size.js';
import { expectedTokens, sequenceOf, VOCABULARY, World } from '../../../support/scheduler-world.js';

const ids = (length: number, from = 0) => Array.from({ length }, (_, i) => (from + i) % VOCABULARY);
const roomy = { maxSequences: 4, maxStepTokens: 512, kvBlocks: 4000, prefixCache: true };

/** One turn of the engine: a result comes back, then steps are planned. */
function step(world: World): void {
  world.complete();
  while (world.plan());
}

/** Steps until a sequence that comes now has its first token. */
function stepsToFirstToken(world: World, sequence: Sequence): number {
  world.add(sequence, 99);
  while (world.plan());
  for (let steps = 1; steps < 2000; steps++) {
    step(world);
    if (sequence.emitted.length > 0) return steps;
  }
  throw new Error('no token in 2,000 steps');
}

/** A world that one peer has flooded, some steps later. */
function flooded(count: number, promptTokens: number, maxTokens: number, options = roomy): World {
  const world = new World(options, 2);
  for (let i = 0; i < count; i++) world.add(sequenceOf(ids(promptTokens, i), maxTokens, { peer: 'flood' }), 9999);
  while (world.plan());
  for (let i = 0; i < 20; i++) step(world);
  return world;
}

describe('a flood of one peer', () => {
  const quiet = () => stepsToFirstToken(new World(roomy, 2), sequenceOf(ids(20), 8, { peer: 'other' }));

  it('of 1,000 requests of 900 tokens delays another peer’s first token by at most 4 steps', () => {
    const world = flooded(1000, 20, 900);
    const steps = stepsToFirstToken(world, sequenceOf(ids(20, 7), 8, { peer: 'other' }));
    console.log(`first token after ${steps} steps of a flood, ${quiet()} in quiet`);
    expect(steps).toBeLessThanOrEqual(quiet() + 4);
  });

  it('of prompts that fill every step delays another peer’s first token by at most 4 steps', () => {
    const world = flooded(40, 4000, 2, { ...roomy, kvBlocks: 2000, prefixCache: false });
    const steps = stepsToFirstToken(world, sequenceOf(ids(20, 7), 8, { peer: 'other' }));
    expect(steps).toBeLessThanOrEqual(quiet() + 4);
    // The part that the other one does not need is not left idle.
    step(world);
    expect(world.executor.rows.at(-1)).toBeGreaterThanOrEqual(roomy.maxStepTokens - 2);
  });

  it('of a prompt that returns something of each position delays another peer’s first token by the steps in flight at most', () => {
    const long = sequenceOf(ids(900), 2, { peer: 'flood', asks: true });
    const world = new World(roomy, 2);
    world.add(long, 99);
    while (world.plan());
    for (let i = 0; i < 20; i++) step(world);
    const before = long.computed;
    const steps = stepsToFirstToken(world, sequenceOf(ids(3, 7), 8, { peer: 'other' }));
    expect(steps).toBeLessThanOrEqual(quiet() + 2);
    // It continues meanwhile, and has all rows again once no other sequence waits.
    expect(long.computed).toBeGreaterThan(before);
    step(world);
    expect(world.executor.rows.at(-1)).toBe(roomy.maxSequences);
  });

  it('costs each of its own sequences at most a turn: all end with the tokens of a plain run', () => {
    const world = flooded(12, 20, 40);
    const others = Array.from({ length: 5 }, (_, i) => sequenceOf(ids(20, 10 + i), 30, { peer: 'other' }));
    for (const sequence of others) world.add(sequence, 99);
    world.drain();
    expect(world.finished).toHaveLength(17);
    for (const sequence of world.finished) expect(sequence.emitted).toEqual(expectedTokens(sequence));
    expect(world.scheduler.counters.preemptions).toBe(0);
    for (const { preemptions } of world.finished) expect(preemptions).toBe(0);
  });

  it('of two peers leaves each its half, and nobody is sent to and fro', () => {
    const world = flooded(300, 20, 900);
    for (let i = 0; i < 300; i++) world.add(sequenceOf(ids(20, i), 900, { peer: 'other' }), 9999);
    for (let i = 0; i < 600; i++) step(world);
    expect(['flood', 'other'].map((peer) => world.scheduler.queue.slotsOf(peer))).toEqual([2, 2]);
    expect(world.scheduler.counters.slotPreemptions).toBe(2);
  });

  it('does not push another peer’s sequences out of the KV cache', () => {
    const world = flooded(8, 30, 400, { ...roomy, kvBlocks: 20 });
    const other = sequenceOf(ids(30, 3), 60, { peer: 'other' });
    world.add(other, 99);
    while (other.state !== 'ended') step(world);
    expect(world.scheduler.counters.preemptions).toBeGreaterThan(0);
    expect(other.preemptions).toBe(0);
  });
});

it('peers that hold equally many each have their turn, however many requests one sends', () => {
  const world = new World({ ...roomy, maxSequences: 2 }, 1);
  const firsts = Array.from({ length: 6 }, (_, i) => sequenceOf(ids(20, i), 10, { peer: `peer ${i}` }));
  for (const [i, first] of firsts.entries()) {
    world.add(first, 99);
    for (let k = 0; k < 20; k++) world.add(sequenceOf(ids(20, i + k), 10, { peer: `peer ${i}` }), 99);
  }
  while (firsts.some(({ state }) => state !== 'ended')) step(world);
  // Each of the six had one turn, the first two perhaps a second one.
  expect(world.finished.length).toBeLessThanOrEqual(8);
});

it('a higher priority goes first, whoever sent it, and gives no slot up for a lower one', () => {
  const world = new World({ ...roomy, maxSequences: 2 }, 1);
  const urgent = [0, 1, 2].map((i) => sequenceOf(ids(20, i), 30, { peer: 'a', priority: 1 }));
  const other = sequenceOf(ids(20, 9), 60, { peer: 'b' });
  for (const sequence of [...urgent, other]) world.add(sequence, 99);
  world.drain();
  expect(world.finished).toEqual([...urgent, other]);
  expect(world.scheduler.counters.slotPreemptions).toBe(0);
});

describe('sequences whose constraints are still translated', () => {
  /** One that has no mask yet. */
  const opening = (from: number) => {
    const constraint = { mask: undefined, isOpening: true };
    const sequence = sequenceOf(ids(20, from), 20);
    return Object.assign(sequence, { options: { ...sequence.options, constraint } });
  };

  it('begin after all others that wait', () => {
    const world = new World({ ...roomy, maxSequences: 1 }, 1);
    const [first, second] = [opening(1), sequenceOf(ids(20, 2), 3)];
    for (const sequence of [first, second]) world.add(sequence, 99);
    world.plan();
    expect([first.state, second.state]).toEqual(['waiting', 'running']);
    for (let i = 0; i < 4; i++) step(world);
    expect([first.state, second.state]).toEqual(['running', 'ended']);
  });

  it('give way to others once their prompts are computed, and not to those like them', () => {
    const [first, second, next] = [opening(1), opening(2), sequenceOf(ids(20, 3), 3)];
    for (const sequence of [first, second]) sequence.state = 'running';
    expect(idleFor(next, [first, second])).toBeUndefined();
    for (const sequence of [first, second]) sequence.missed(19);
    expect(idleFor(next, [first, second])).toBe(second);
    expect(idleFor(opening(4), [first, second])).toBeUndefined();
    second.options.constraint.isOpening = false;
    expect(idleFor(next, [first, second])).toBe(first);
  });
});

describe('sequences that nobody reads', () => {
  it('give their slots to those that wait, and go on when they are read again', () => {
    const world = new World(roomy, 2);
    const slow = [0, 1, 2, 3].map((i) => sequenceOf(ids(20, i), 50));
    for (const sequence of slow) world.add(sequence, 99);
    for (let i = 0; i < 5; i++) step(world);
    for (const sequence of slow) sequence.paused = true;
    const others = [4, 5, 6].map((i) => sequenceOf(ids(20, i), 20));
    for (const sequence of others) world.add(sequence, 99);
    for (let i = 0; i < 60; i++) step(world);
    expect(others.map(({ state }) => state)).toEqual(['ended', 'ended', 'ended']);
    for (const sequence of slow) sequence.paused = false;
    world.drain();
    for (const sequence of [...slow, ...others]) expect(sequence.emitted).toEqual(expectedTokens(sequence));
    expect(slow.map(({ preemptions }) => preemptions)).toEqual([0, 0, 0, 0]);
  });

  it('give up their blocks when slots are left but no blocks', () => {
    const world = new World({ ...roomy, maxSequences: 8, kvBlocks: 12 }, 1);
    const slow = sequenceOf(ids(140), 20);
    world.add(slow, 99);
    for (let i = 0; i < 5; i++) step(world);
    slow.paused = true;
    const other = sequenceOf(ids(100, 3), 5);
    world.add(other, 99);
    for (let i = 0; i < 20; i++) step(world);
    expect(other.state).toBe('ended');
  });
});

it('no schedule of comings and goings makes slots change hands more often than they need', () => {
  let yields = 0;
  fc.assert(
    fc.property(
      fc.integer({ min: 2, max: 6 }),
      fc.array(
        fc.record({
          peer: fc.constantFrom('a', 'b', 'c', 'd'),
          count: fc.integer({ min: 1, max: 8 }),
          maxTokens: fc.integer({ min: 1, max: 60 }),
          steps: fc.integer({ min: 0, max: 40 }),
        }),
        { minLength: 2, maxLength: 12 },
      ),
      (maxSequences, bursts) => {
        const world = new World({ ...roomy, maxSequences }, 2);
        const all: Sequence[] = [];
        for (const { peer, count, maxTokens, steps } of bursts) {
          for (let i = 0; i < count; i++) {
            const sequence = sequenceOf(ids(20, all.length), maxTokens, { peer });
            all.push(sequence);
            world.add(sequence, 99);
          }
          for (let i = 0; i < steps; i++) step(world);
        }
        // Without anybody new, each slot changes hands at most once before somebody ends.
        const before = { yields: world.scheduler.counters.slotPreemptions, finished: world.finished.length };
        world.drain();
        const ended = world.finished.length - before.finished;
        yields += world.scheduler.counters.slotPreemptions;
        expect(world.scheduler.counters.slotPreemptions - before.yields).toBeLessThanOrEqual(
          maxSequences * (ended + 1),
        );
        for (const sequence of all) {
          expect(sequence.state).toBe('ended');
          expect(sequence.emitted).toEqual(expectedTokens(sequence));
        }
      },
    ),
    { numRuns: runs(100), seed: seed(20261121) },
  );
  console.log(`slots given up in 100 schedules: ${yields}`);
  expect(yields).toBeGreaterThanOrEqual(scaled(100));
});

describe('the fair share of a budget', () => {
  it('gives those who want little all they want, and the others equally much', () => {
    expect(fairShare(512, [20, 4000])).toBe(492);
    expect(fairShare(512, [4000, 4000])).toBe(256);
    expect(fairShare(512, [1, 1, 100])).toBe(Number.POSITIVE_INFINITY);
    expect(fairShare(512, [])).toBe(Number.POSITIVE_INFINITY);
    expect(fairShare(3, [9, 9, 9, 9])).toBe(1);
  });
});
