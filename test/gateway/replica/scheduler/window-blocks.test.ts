import { describe, expect, it } from 'vitest';
import { encodeStep } from '../../../../src/gateway/replica/link/step-encoding.js';
import { Scheduler, type SchedulerOptions } from '../../../../src/gateway/replica/scheduler/scheduler.js';
import type { StepPlan } from '../../../../src/gateway/replica/scheduler/step-plan.js';
import { Sequence, type SequenceOptions } from '../../../../src/gateway/request/sequence.js';
import { ExecuteRequest } from '../../../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { mostSeenBlocks } from '../../../../src/shared/kv-window.js';
import { expectedTokens, sequenceOf, VOCABULARY, World } from '../../../support/scheduler-world.js';

const WINDOW = 40;
const windowed = (blocks: number) => ({ window: WINDOW, blocks });
const roomy: SchedulerOptions = { maxSequences: 4, maxStepTokens: 32, kvBlocks: 400, windowed: windowed(101) };
const ids = (length: number, from = 0) => Array.from({ length }, (_, i) => (from + i * i + 3 * i) % VOCABULARY);

/** Runs a sequence to its end. */
function finish(world: World, sequence: Sequence): void {
  world.add(sequence, 999);
  world.drain();
  expect(sequence.emitted).toEqual(expectedTokens(sequence));
}

describe('a sequence in windowed layers', () => {
  it('holds the blocks that a row under way or to come sees, and no others', () => {
    const world = new World({ ...roomy, prefixCache: false }, 2);
    const sequence = sequenceOf(ids(150), 300);
    world.add(sequence, 999);
    let most = 0;
    for (let going = true; going; ) {
      going = world.plan() || world.complete();
      const { computed, scheduled, windowStart, windowBlocks } = sequence;
      most = Math.max(most, windowBlocks.length);
      if (sequence.slot === undefined) continue;
      // The first key that position `computed` sees, and the block of the last position that is scheduled.
      expect(windowStart).toBe(Math.floor(Math.max(0, computed - WINDOW + 1) / 16));
      expect(windowStart + windowBlocks.length).toBe(Math.ceil(scheduled / 16));
    }
    expect(sequence.emitted).toHaveLength(300);
    // 40 − 1 positions behind the first of two steps of 32.
    expect(most).toBe(7);
    expect(world.scheduler.windows.freeCount).toBe(100);
  });

  it('runs in the least pool there may be, alone, without being preempted', () => {
    // A row's window and 32 rows lie in six blocks at most.
    const world = new World({ ...roomy, windowed: windowed(7) }, 2);
    const sequence = sequenceOf(ids(150), 200);
    finish(world, sequence);
    expect(world.scheduler.counters.preemptions).toBe(0);
  });

  it('gives its blocks up for one of a higher priority when they run out, and ends with the same tokens', () => {
    const world = new World({ ...roomy, windowed: windowed(9) }, 2);
    const low = [1, 2, 3].map((i) => sequenceOf(ids(100, i), 50));
    const high = sequenceOf(ids(100, 9), 100, { priority: 1 });
    for (const sequence of low) world.add(sequence, 999);
    world.plan();
    world.add(high, 999);
    world.drain();
    expect(world.scheduler.counters.preemptions).toBeGreaterThan(0);
    expect(high.preemptions).toBe(0);
    for (const sequence of [...low, high]) expect(sequence.emitted).toEqual(expectedTokens(sequence));
  });

  it('could never run where its window does not fit', () => {
    const scheduler = new Scheduler({ ...roomy, windowed: windowed(5) });
    expect(scheduler.canEverRun(64)).toBe(true);
    expect(scheduler.canEverRun(65)).toBe(false);
  });
});

describe('a prefix that was computed before is found in windowed layers', () => {
  const prompt = ids(200);

  /** Cache hits of a prompt that continues the first, with so many windowed blocks taken in between. */
  function found(between: number): number {
    const world = new World({ ...roomy, windowed: windowed(41) }, 2);
    finish(world, sequenceOf(prompt, 1));
    if (between > 0) finish(world, sequenceOf(ids(16 * between, 7), 1));
    const again = sequenceOf([...prompt, 1, 2, 3], 3);
    finish(world, again);
    return again.cachedTokens;
  }

  it('as long as its last window is there', () => {
    expect(found(0)).toBe(192);
    expect(found(20)).toBe(192);
  });

  it('and not where that was overwritten, though all blocks of the other layers are there', () => {
    expect(found(45)).toBe(0);
  });

  it('up to where a whole window is', () => {
    const world = new World({ ...roomy, maxSequences: 1, windowed: windowed(41) }, 2);
    finish(world, sequenceOf(prompt, 1));
    // Behind 96 tokens it is another prompt: what position 96 sees lies in the blocks 3 to 5.
    const branch = sequenceOf([...prompt.slice(0, 96), ...ids(20, 11)], 1);
    finish(world, branch);
    expect(branch.cachedTokens).toBe(96);
    // Now those three were used last. 25 blocks were never taken, and eight of the first prompt's are older.
    finish(world, sequenceOf(ids(16 * 33, 13), 1));
    const again = sequenceOf([...prompt, 1], 1);
    finish(world, again);
    expect(again.cachedTokens).toBe(96);
  });

  it('by the completions of one request, which take its blocks together', () => {
    const world = new World(roomy, 2);
    const options: SequenceOptions = { ...sequenceOf(prompt, 30).options };
    const leader = new Sequence(options);
    const followers = [1, 2, 3].map(() => new Sequence({ ...options, leader }));
    for (const sequence of [leader, ...followers]) world.add(sequence, 999);
    world.drain();
    for (const sequence of followers) {
      expect(sequence.cachedTokens).toBe(192);
      expect(sequence.emitted).toEqual(expectedTokens(leader));
    }
  });

  it('by requests that wait for the one that computes it', () => {
    const world = new World(roomy, 2);
    const sequences = [1, 2, 3].map((i) => sequenceOf([...prompt, i], 10));
    for (const sequence of sequences) world.add(sequence, 999);
    world.drain();
    expect(sequences.map(({ cachedTokens }) => cachedTokens)).toEqual([0, 192, 192]);
    for (const sequence of sequences) expect(sequence.emitted).toEqual(expectedTokens(sequence));
  });

  it.each([1, 2, 3, 4, 5])(
    'behind a kill with no more blocks than a step needs, after %s steps of a prompt',
    (steps) => {
      // Behind the third the last block is not full, and the next slice begins in it.
      const limits = { window: 2, blocks: 1 + mostSeenBlocks(9, 2, 16) };
      const world = new World({ maxSequences: 1, maxStepTokens: 9, kvBlocks: 20, windowed: limits }, 1);
      const sequence = sequenceOf(prompt.slice(0, 60), 4);
      world.add(sequence, 999);
      for (let i = 0; i < steps; i++) {
        world.plan();
        world.complete();
      }
      world.kill(0, false);
      world.drain();
      expect(sequence.state).toBe('ended');
      expect(sequence.emitted).toEqual(expectedTokens(sequence));
      expect(world.scheduler.counters.recomputedTokens).toBe(0);
    },
  );

  it('never with a block of an executor that is gone', () => {
    const world = new World(roomy, 2);
    finish(world, sequenceOf(prompt, 1));
    world.crash();
    const again = sequenceOf([...prompt, 1], 1);
    finish(world, again);
    expect(again.cachedTokens).toBe(0);
  });
});

describe('frames of a model without windows', () => {
  it('say nothing of windowed blocks', () => {
    const scheduler = new Scheduler({ maxSequences: 1, maxStepTokens: 32, kvBlocks: 40 });
    scheduler.add(sequenceOf(ids(40), 20));
    for (let step = 0; step < 3; step++) {
      const frame = encodeStep(scheduler.plan() as StepPlan, 1n);
      const { opens, appends } = ExecuteRequest.decode(ExecuteRequest.encode(frame).finish());
      for (const { windowBlockIds } of [...opens, ...appends]) expect(windowBlockIds).toHaveLength(0);
      for (const { windowStart } of opens) expect(windowStart).toBe(0);
      scheduler.complete([7]);
    }
  });
});
