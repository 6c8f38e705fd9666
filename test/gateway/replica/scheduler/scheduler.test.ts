import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Sequence } from '../../../../src/gateway/request/sequence.js';
import { operations, play, ScheduleTotals, worldLimits } from '../../../support/any-schedule.js';
import { byTier, runs, scaled, seed } from '../../../support/run-size.js';
import { expectedTokens, ids, roomy, sequenceOf, World } from '../../../support/scheduler-world.js';

describe('the scheduler', () => {
  it('computes a prompt in chunks of the budget and samples at its end', () => {
    const world = new World({ ...roomy, maxStepTokens: 16 }, 1);
    const sequence = sequenceOf(ids(40), 3);
    world.add(sequence, 99);
    world.drain();
    expect(world.executor.rows).toEqual([16, 16, 8, 1, 1]);
    expect(sequence.emitted).toEqual(expectedTokens(sequence));
  });

  it('shares a step between prompts and generation', () => {
    const world = new World({ ...roomy, maxStepTokens: 20 }, 1);
    world.add(sequenceOf(ids(10), 50), 50);
    world.plan();
    world.complete();
    world.add(sequenceOf(ids(30, 7), 50), 50);
    world.plan();
    world.complete();
    expect(world.executor.rows).toEqual([10, 20]);
  });

  it('keeps two steps under way and knows ahead that the last token needs no third', () => {
    const world = new World(roomy, 2);
    const sequence = sequenceOf(ids(4), 2);
    world.add(sequence, 99);
    expect([world.plan(), world.plan(), world.plan()]).toEqual([true, true, false]);
    world.drain();
    expect(world.executor.rows).toEqual([4, 1]);
    expect(world.scheduler.counters.discardedTokens).toBe(0);
  });

  it('discards what was under way when a stop was seen, and frees the slot only then', () => {
    const world = new World(roomy, 2);
    const sequence = sequenceOf(ids(4), 50);
    world.add(sequence, 3);
    for (let i = 0; i < 2; i++) world.plan();
    for (let i = 0; i < 2; i++) {
      world.complete();
      world.plan();
    }
    world.complete();
    expect(sequence.state).toBe('ended');
    expect(sequence.slot).toBeDefined();
    world.complete();
    expect(sequence.slot).toBeUndefined();
    expect(world.scheduler.counters.discardedTokens).toBe(1);
  });

  it('finds the blocks of a prompt that was computed before, and computes the rest', () => {
    const world = new World(roomy, 2);
    world.add(sequenceOf(ids(50), 2), 99);
    world.drain();
    const again = sequenceOf([...ids(50), 1, 2, 3], 2);
    world.add(again, 99);
    const before = world.executor.rows.length;
    world.drain();
    expect(again.cachedTokens).toBe(48);
    expect(world.executor.rows[before]).toBe(5);
    expect(again.emitted).toEqual(expectedTokens(again));
  });

  it('computes a prompt once when many come with it together, and nobody waits who shares little', () => {
    const world = new World({ ...roomy, maxSequences: 10, maxStepTokens: 1000 }, 2);
    const shared = ids(160);
    const sequences = [1, 2, 3, 4, 5].map((i) => sequenceOf([...shared, ...ids(8, i)], 3));
    const stranger = sequenceOf([...ids(16), ...ids(40, 30)], 3);
    for (const sequence of [...sequences, stranger]) world.add(sequence, 99);
    world.plan();
    expect(sequences.map(({ state }) => state)).toEqual(['running', ...new Array(4).fill('waiting')]);
    expect(stranger.state).toBe('running');
    world.drain();
    expect(sequences.map(({ cachedTokens }) => cachedTokens)).toEqual([0, 160, 160, 160, 160]);
    for (const sequence of [...sequences, stranger]) expect(sequence.emitted).toEqual(expectedTokens(sequence));
  });

  it.each(['ends', 'is paused', 'dies'] as const)(
    'waits for a prompt no longer when the one that computes it %s',
    (how) => {
      const world = new World({ ...roomy, maxStepTokens: 32 }, 1);
      const [first, second] = [1, 2].map((i) => sequenceOf([...ids(160), i], 3)) as [Sequence, Sequence];
      for (const sequence of [first, second]) world.add(sequence, 99);
      world.plan();
      world.complete();
      world.plan();
      expect([first.state, second.state]).toEqual(['running', 'waiting']);
      if (how === 'ends') world.end(first, false);
      else if (how === 'dies') world.crash();
      first.paused = how === 'is paused';
      world.drain();
      expect(second.state).toBe('ended');
      expect(second.emitted).toEqual(expectedTokens(second));
      first.paused = false;
      world.drain();
      expect(first.emitted).toEqual(expectedTokens(first));
    },
  );

  it('without a prefix cache finds nothing', () => {
    const world = new World({ ...roomy, prefixCache: false }, 2);
    for (let i = 0; i < 2; i++) {
      world.add(sequenceOf(ids(50), 2), 99);
      world.drain();
    }
    expect(world.scheduler.counters.cachedTokens).toBe(0);
  });

  it('runs the higher priority first and keeps the order of arrival within one', () => {
    const world = new World({ ...roomy, maxSequences: 1 }, 1);
    const low = [sequenceOf(ids(4), 2), sequenceOf(ids(4), 2)];
    const high = sequenceOf(ids(4), 2, { priority: 5 });
    for (const sequence of [...low, high]) world.add(sequence, 99);
    world.drain();
    expect(world.finished).toEqual([high, ...low]);
  });

  it('preempts the newest when blocks run out and completes everybody with the tokens of a plain run', () => {
    const world = new World({ ...roomy, kvBlocks: 9 }, 2);
    const sequences = [1, 2, 3].map((i) => sequenceOf(ids(30, i), 60));
    for (const sequence of sequences) world.add(sequence, 99);
    world.drain();
    expect(world.scheduler.counters.preemptions).toBeGreaterThan(0);
    expect(sequences[0]?.preemptions).toBe(0);
    for (const sequence of sequences) expect(sequence.emitted).toEqual(expectedTokens(sequence));
  });

  it('gives a prompt whose logprobs are asked for the rows of logits that running sequences leave', () => {
    const world = new World({ ...roomy, maxSequences: 4 }, 1);
    world.add(sequenceOf(ids(4), 50), 99);
    world.plan();
    world.complete();
    const asks = sequenceOf(ids(10, 3), 2, { asks: true });
    world.add(asks, 99);
    world.drain();
    // Four rows of logits: one of the sequence that runs, three of the prompt's.
    expect(world.executor.rows.slice(0, 6)).toEqual([4, 4, 4, 4, 2, 2]);
    expect(asks.emitted).toEqual(expectedTokens(asks));
  });
});

describe('any schedule', () => {
  it('ends every sequence with the tokens of a plain run, and never leaks, doubles or overwrites a block', () => {
    const totals = new ScheduleTotals();
    fc.assert(
      fc.property(
        fc.record({ ...worldLimits(80), prefixCache: fc.boolean() }),
        fc.integer({ min: 1, max: 2 }),
        operations,
        (options, depth, steps) => play(new World(options, depth), steps, totals),
      ),
      { numRuns: runs(2000), seed: seed(20261121) },
    );
    console.log('schedules:', { ...totals });
    expect(totals.preemptions).toBeGreaterThanOrEqual(scaled(100));
    expect(totals.damagedBlocks).toBeGreaterThanOrEqual(scaled(100));
    expect(totals.restoredBlocks).toBeGreaterThanOrEqual(scaled(200));
    expect(totals.cachedTokens / 16).toBeGreaterThanOrEqual(scaled(100));
    expect(totals.discardedTokens).toBeGreaterThanOrEqual(scaled(100));
    expect(totals.crashes).toBeGreaterThanOrEqual(scaled(100));
    expect(totals.keptTokens).toBeGreaterThanOrEqual(scaled(1000));
    expect(totals.mostPreempted).toBeGreaterThanOrEqual(byTier({ quick: 1, default: 3, full: 8 }));
    expect(totals.acceptedDraftTokens).toBeGreaterThanOrEqual(scaled(1000));
    expect(totals.draftTokens - totals.acceptedDraftTokens).toBeGreaterThanOrEqual(scaled(1000));
    expect(totals.yields).toBeGreaterThanOrEqual(scaled(100));
  });

  it('does so with states, from where one of a slot’s last two slices ended, without prefixes, with and without draft tokens', () => {
    const totals = new ScheduleTotals();
    fc.assert(
      fc.property(
        fc.record({ ...worldLimits(80), prefixCache: fc.boolean(), draftTokens: fc.integer({ min: 0, max: 3 }) }),
        fc.integer({ min: 1, max: 2 }),
        operations,
        (options, depth, steps) => play(new World({ ...options, isRecurrent: true }, depth), steps, totals),
      ),
      { numRuns: runs(1000), seed: seed(20261123) },
    );
    console.log('schedules with states:', { ...totals });
    expect(totals.preemptions).toBeGreaterThanOrEqual(scaled(100));
    expect(totals.crashes).toBeGreaterThanOrEqual(scaled(100));
    expect(totals.yields).toBeGreaterThanOrEqual(scaled(50));
    expect(totals.cachedTokens).toBe(0);
    expect(totals.acceptedDraftTokens).toBeGreaterThanOrEqual(scaled(500));
    expect(totals.draftTokens - totals.acceptedDraftTokens).toBeGreaterThanOrEqual(scaled(500));
    expect(totals.replayedPositions).toBeGreaterThanOrEqual(scaled(1000));
  });

  it('does so with windows, whose blocks nobody writes to while a row can see them', () => {
    const totals = new ScheduleTotals();
    fc.assert(
      fc.property(
        fc.record({ ...worldLimits(40), prefixCache: fc.boolean() }),
        fc.record({ window: fc.integer({ min: 1, max: 50 }), spare: fc.integer({ min: 0, max: 12 }) }),
        fc.integer({ min: 1, max: 3 }),
        operations,
        (options, { window, spare }, depth, steps) => {
          // The least that an executor may have: one sequence's window and the largest step.
          const least = Math.ceil((window + options.maxStepTokens - 2) / 16) + 1;
          const windowed = { window, blocks: 1 + least + spare };
          const world = new World({ ...options, windowed }, depth);
          // The model of windows takes each position for certain.
          const certain = steps.map((each) => (each.kind === 'add' ? { ...each, draftTokens: false } : each));
          play(world, certain, totals);
          expect(world.scheduler.windows.freeCount).toBe(world.scheduler.windows.capacity);
        },
      ),
      { numRuns: runs(2000), seed: seed(20261122) },
    );
    console.log('schedules with windows:', { ...totals });
    expect(totals.restoredBlocks).toBeGreaterThanOrEqual(scaled(200));
    expect(totals.preemptions).toBeGreaterThanOrEqual(scaled(100));
    expect(totals.cachedTokens / 16).toBeGreaterThanOrEqual(scaled(100));
    expect(totals.crashes).toBeGreaterThanOrEqual(scaled(100));
    expect(totals.keptTokens).toBeGreaterThanOrEqual(scaled(1000));
    expect(totals.mostPreempted).toBeGreaterThanOrEqual(byTier({ quick: 1, default: 3, full: 8 }));
  });
});

describe('a schedule of depth 2 in which blocks run out', () => {
  /** Three sequences in room for two; at event `at`, whatever that is, `victim` is given up or the executor dies. */
  function play(at: number, victim: number | 'crash' | undefined): { events: number; world: World } {
    const world = new World({ ...roomy, kvBlocks: 9, maxStepTokens: 24 }, 2);
    const sequences = [1, 2, 3].map((i) => sequenceOf(ids(30, i), 40));
    sequences.forEach((sequence, i) => {
      world.add(sequence, i === 1 ? 17 : 99);
    });
    let events = 0;
    for (let isGoing = true; isGoing; events++) {
      if (events === at) {
        if (victim === 'crash') world.crash();
        else if (victim !== undefined) world.end(sequences[victim] as Sequence, false);
      }
      isGoing = world.plan() || world.complete();
      if (events > 1000) throw new Error('the sequences do not end');
    }
    for (const sequence of sequences) {
      expect(sequence.state).toBe('ended');
      expect(sequence.emitted).toEqual(expectedTokens(sequence));
    }
    expect(world.scheduler.blocks.freeCount).toBe(world.scheduler.blocks.capacity);
    return { events, world };
  }

  const plain = play(-1, undefined);

  it('preempts, and discards what was under way at a stop', () => {
    expect(plain.world.scheduler.counters.preemptions).toBeGreaterThan(0);
    expect(plain.world.scheduler.counters.discardedTokens).toBeGreaterThan(0);
  });

  it.each([0, 1, 2, 'crash'] as const)('gives every block back when %s goes away, at each of its points', (victim) => {
    expect(plain.events).toBeGreaterThan(100);
    for (let at = 0; at < plain.events; at++) play(at, victim);
  });
});
