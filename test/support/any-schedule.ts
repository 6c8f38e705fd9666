import fc from 'fast-check';
import { expect } from 'vitest';
import type { Sequence } from '../../src/gateway/request/sequence.js';
import { expectedTokens, sequenceOf, VOCABULARY, type World } from './scheduler-world.js';

/** Operations of a scheduler. */
const operation = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('add' as const),
      prefix: fc.integer({ min: 0, max: 3 }),
      length: fc.integer({ min: 1, max: 70 }),
      maxTokens: fc.integer({ min: 1, max: 50 }),
      stopAt: fc.integer({ min: 1, max: 60 }),
      priority: fc.integer({ min: -1, max: 1 }),
      peer: fc.constantFrom('a', 'a', 'b', 'c'),
      promptLogprobs: fc.boolean(),
      draftTokens: fc.boolean(),
    }),
  },
  { weight: 10, arbitrary: fc.record({ kind: fc.constant('plan' as const) }) },
  { weight: 10, arbitrary: fc.record({ kind: fc.constant('complete' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('cancel' as const), which: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('pause' as const), which: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('crash' as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('kill' as const),
      ran: fc.integer({ min: 0, max: 2 }),
      isTorn: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('unload' as const),
      most: fc.constantFrom(20, 60, 1000),
      isDamaged: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('fault' as const),
      ran: fc.integer({ min: 0, max: 2 }),
      isTorn: fc.boolean(),
      damage: fc.option(fc.nat(), { nil: undefined }),
    }),
  },
);

/** Limits of a scheduler that has little room. @param mostStepTokens the most that a step may have */
export const worldLimits = (mostStepTokens: number) => ({
  maxSequences: fc.integer({ min: 1, max: 6 }),
  maxStepTokens: fc.integer({ min: 6, max: mostStepTokens }),
  kvBlocks: fc.integer({ min: 10, max: 40 }),
});

export const operations = fc.array(operation, { minLength: 30, maxLength: 150 });

type Operation = typeof operation extends fc.Arbitrary<infer T> ? T : never;

/** Totals of schedules: that they put the scheduler to the test. */
export class ScheduleTotals {
  preemptions = 0;
  cachedTokens = 0;
  discardedTokens = 0;
  keptTokens = 0;
  damagedBlocks = 0;
  crashes = 0;
  unloads = 0;
  restoredBlocks = 0;
  finished = 0;
  mostPreempted = 0;
  yields = 0;
  draftTokens = 0;
  acceptedDraftTokens = 0;
  maskMisses = 0;
  snapshotsRead = 0;
  snapshotsWritten = 0;
  replayedPositions = 0;
  snapshotsBeforeDrafts = 0;
}

/** Does one thing after another, lets everything come to its end, and expects the tokens of a plain run. */
export function play(world: World, operations: readonly Operation[], totals: ScheduleTotals): void {
  const sequences: Sequence[] = [];
  const cancelled = new Set<Sequence>();
  for (const step of operations) {
    if (step.kind === 'add') {
      const { priority, peer, draftTokens } = step;
      // Tokens of some of them are constrained instead: some masks come late, that of the first token, too.
      const isConstrained = draftTokens && step.length % (world.options.isRecurrent === true ? 2 : 4) === 0;
      const options = {
        priority,
        peer,
        draftTokens: draftTokens && !isConstrained,
        isConstrained,
        asks: step.promptLogprobs,
      };
      const ids = Array.from({ length: step.length }, (_, i) => (step.prefix + i) % VOCABULARY);
      const sequence = sequenceOf(ids, step.maxTokens, options);
      if (!world.scheduler.canEverRun(step.length + step.maxTokens)) continue;
      sequences.push(sequence);
      world.add(sequence, step.stopAt);
    } else if (step.kind === 'plan') world.plan();
    else if (step.kind === 'complete') world.complete();
    else if (step.kind === 'crash') {
      world.crash();
      totals.crashes += 1;
    } else if (step.kind === 'kill') {
      world.kill(step.ran, step.isTorn);
    } else if (step.kind === 'unload') {
      totals.unloads += Number(world.unload(step.most, step.isDamaged));
    } else if (step.kind === 'fault') {
      world.fault(step.ran, step.isTorn, step.damage);
    } else {
      const sequence = sequences[step.which % Math.max(1, sequences.length)];
      if (sequence === undefined || sequence.state === 'ended') continue;
      if (step.kind === 'pause') sequence.paused = !sequence.paused;
      else {
        cancelled.add(sequence);
        world.end(sequence, false);
      }
    }
  }
  for (const sequence of sequences) sequence.paused = false;
  world.drain();
  for (const sequence of sequences) {
    expect(sequence.emitted).toEqual(expectedTokens(sequence));
    expect(sequence.state).toBe('ended');
    expect(sequence.preemptions).toBeLessThanOrEqual(3);
    totals.mostPreempted += Number(sequence.preemptions === 3);
    totals.finished += Number(!cancelled.has(sequence));
  }
  expect(world.scheduler.blocks.freeCount).toBe(world.scheduler.blocks.capacity);
  expect(world.scheduler.snapshots.freeCount).toBe(world.scheduler.snapshots.count);
  const { preemptions, slotPreemptions, cachedTokens, discardedTokens, draftTokens, acceptedDraftTokens, maskMisses } =
    world.scheduler.counters;
  totals.maskMisses += maskMisses;
  totals.snapshotsRead += world.executor.snapshotCounts.read;
  totals.snapshotsWritten += world.executor.snapshotCounts.written;
  totals.replayedPositions += world.executor.replays.positions;
  totals.snapshotsBeforeDrafts += world.executor.replays.snapshots;
  totals.draftTokens += draftTokens;
  totals.acceptedDraftTokens += acceptedDraftTokens;
  totals.yields += slotPreemptions;
  totals.preemptions += preemptions;
  totals.cachedTokens += cachedTokens;
  totals.discardedTokens += discardedTokens;
  totals.keptTokens += world.scheduler.counters.keptTokens;
  totals.restoredBlocks += world.scheduler.counters.restoredBlocks;
  totals.damagedBlocks += world.scheduler.counters.damagedBlocks;
}
