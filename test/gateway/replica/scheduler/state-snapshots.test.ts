import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { SchedulerOptions } from '../../../../src/gateway/replica/scheduler/scheduler.js';
import { Sequence } from '../../../../src/gateway/request/sequence.js';
import { operations, play, ScheduleTotals, worldLimits } from '../../../support/any-schedule.js';
import { runs, scaled, seed } from '../../../support/run-size.js';
import { expectedTokens, sequenceOf, VOCABULARY, World } from '../../../support/scheduler-world.js';

const roomy: SchedulerOptions = {
  ...{ maxSequences: 8, maxStepTokens: 512, kvBlocks: 2000, isRecurrent: true, snapshots: 16 },
};
const ids = (length: number, from = 0) => Array.from({ length }, (_, i) => (from + i * i + 3 * i) % VOCABULARY);

/** Runs a sequence to its end. @returns the rows of its steps */
function finish(world: World, sequence: Sequence): number[] {
  const { length } = world.executor.rows;
  world.add(sequence, 9999);
  world.drain();
  expect(sequence.emitted).toEqual(expectedTokens(sequence));
  return world.executor.rows.slice(length);
}

describe('snapshots of recurrent states', () => {
  it('let the next turn go on behind the last whole block of the answer', () => {
    const world = new World(roomy, 2);
    const first = sequenceOf(ids(300), 45);
    // Cut where the prompt's end is kept: the last whole block that at least 8 tokens follow.
    expect(finish(world, first).slice(0, 3)).toEqual([288, 12, 1]);
    const second = sequenceOf([...ids(300), ...first.emitted, ...ids(30, 7)], 5);
    finish(world, second);
    expect(second.cachedTokens).toBe(16 * Math.floor((300 + 44) / 16));
    expect(world.scheduler.counters.cachedTokens).toBe(second.cachedTokens);
  });

  it('let a turn go on behind the last prompt where the answer was changed', () => {
    const world = new World(roomy, 2);
    finish(world, sequenceOf(ids(300), 45));
    const changed = sequenceOf([...ids(295), ...ids(80, 5)], 5);
    finish(world, changed);
    expect(changed.cachedTokens).toBe(288);
  });

  it('are not worth a step of their own where a prompt is short', () => {
    const world = new World(roomy, 2);
    expect(finish(world, sequenceOf(ids(130), 2))).toEqual([130, 1]);
    expect(world.scheduler.snapshots.keptCount).toBe(0);
    expect(finish(world, sequenceOf(ids(136), 2))).toEqual([128, 8, 1]);
    expect(world.scheduler.snapshots.keptCount).toBe(1);
  });

  it('are taken of a long prompt on its way, of one prompt at most a quarter', () => {
    const world = new World(roomy, 2);
    finish(world, sequenceOf(ids(2500), 1));
    // 1,024 and 2,048, where its steps end anyway, and the end.
    expect(world.executor.rows).toEqual([512, 512, 512, 512, 432, 20]);
    expect(world.scheduler.snapshots.keptCount).toBe(3);
    const longest = sequenceOf(ids(12_000, 1), 1);
    finish(world, longest);
    expect(world.scheduler.snapshots.keptCount).toBe(3 + 4);
    const other = sequenceOf([...ids(2100), 1, 2, 3], 1);
    finish(world, other);
    expect(other.cachedTokens).toBe(2048);
  });

  it('are left where a prompt parts from one that was computed before, for a third', () => {
    const world = new World(roomy, 2);
    const found = [1, 2, 3].map((i) => {
      const sequence = sequenceOf([...ids(200), ...ids(300, i)], 1);
      finish(world, sequence);
      return sequence.cachedTokens;
    });
    expect(found).toEqual([0, 0, 192]);
  });

  it('come for those who wait for what they share with one that runs', () => {
    const world = new World({ ...roomy, maxSequences: 10, maxStepTokens: 256 }, 2);
    const sequences = [1, 2, 3, 4, 5].map((i) => sequenceOf([...ids(400), ...ids(90, i)], 3));
    // Shares too little to wait for.
    const stranger = sequenceOf([...ids(64), ...ids(40, 30)], 3);
    for (const sequence of [...sequences, stranger]) world.add(sequence, 99);
    world.drain();
    expect(sequences.map(({ cachedTokens }) => cachedTokens)).toEqual([0, 400, 400, 400, 400]);
    for (const sequence of [...sequences, stranger]) expect(sequence.emitted).toEqual(expectedTokens(sequence));
    expect(stranger.cachedTokens).toBe(0);
  });

  it('let the completions of a request share their prompt, where it is kept', () => {
    for (const [length, cached] of [
      [300, 288],
      [100, 0],
    ] as const) {
      const world = new World(roomy, 2);
      const leader = sequenceOf(ids(length), 4);
      const others = [1, 2, 3].map(() => new Sequence({ ...sequenceOf(ids(length), 4).options, leader }));
      for (const sequence of [leader, ...others]) world.add(sequence, 99);
      world.drain();
      expect(others.map(({ cachedTokens }) => cachedTokens)).toEqual([cached, cached, cached]);
      for (const sequence of others) expect(sequence.emitted).toEqual(expectedTokens(sequence));
    }
  });

  it('are nothing to the one who takes no prefix, and are left by him', () => {
    const world = new World(roomy, 2);
    const asks = () => sequenceOf(ids(300), 1, { asks: true });
    finish(world, asks());
    const again = asks();
    finish(world, again);
    const takes = sequenceOf(ids(300), 1);
    finish(world, takes);
    expect([again.cachedTokens, takes.cachedTokens]).toEqual([0, 288]);
  });

  it('are held by who began from one until a slice behind it was not late', () => {
    const world = new World(roomy, 1);
    finish(world, sequenceOf(ids(300), 1));
    const late = sequenceOf(ids(300), 3, { isConstrained: true });
    world.add(late, 99);
    const { scheduler } = world;
    const [first] = scheduler.plan()!.slices;
    expect([first!.position, first!.fromSnapshot]).toEqual([288, late.snapshots[0]!.id]);
    scheduler.complete([undefined]);
    expect(late.snapshots).toEqual([{ id: first!.fromSnapshot, kind: 'began', position: 288 }]);
    const [again] = scheduler.plan()!.slices;
    expect([again!.position, again!.fromSnapshot]).toEqual([288, first!.fromSnapshot]);
    scheduler.complete([1]);
    expect(late.snapshots).toEqual([]);
    scheduler.check();
  });

  it('stand at no tokens that nobody knows: of an answer that was given up', () => {
    const world = new World(roomy, 2);
    const cancelled = sequenceOf(ids(20), 100);
    world.add(cancelled, 999);
    while (cancelled.scheduled < 32) if (!world.plan()) world.complete();
    // Two steps are under way: what the first samples, which the second goes on from, is wanted by nobody any more.
    expect([cancelled.inFlight, cancelled.known]).toEqual([2, 31]);
    world.end(cancelled, false);
    world.drain();
    const known = [...ids(20), ...cancelled.emitted];
    for (let token = 0; token < VOCABULARY; token++) finish(world, sequenceOf([...known, token, 1], 1));
  });

  it('are gone with the executor that held them', () => {
    const world = new World(roomy, 2);
    finish(world, sequenceOf(ids(300), 20));
    world.crash();
    expect(world.scheduler.snapshots.keptCount).toBe(0);
    const again = sequenceOf(ids(300), 20);
    finish(world, again);
    expect(again.cachedTokens).toBe(0);
  });

  it.each([{ snapshots: 0 }, { prefixCache: false }])('are neither taken nor found with %j', (without) => {
    const world = new World({ ...roomy, ...without }, 2);
    for (let i = 0; i < 2; i++) expect(finish(world, sequenceOf(ids(300), 20))[0]).toBe(300);
    expect(world.executor.snapshotCounts).toEqual({ read: 0, written: 0 });
    expect(world.scheduler.counters.cachedTokens).toBe(0);
  });

  it('are held by at most half of themselves’ number of sequences that generate', () => {
    const world = new World({ ...roomy, snapshots: 4 }, 2);
    const sequences = [1, 2, 3, 4, 5].map((i) => sequenceOf(ids(20, i), 200));
    for (const sequence of sequences) world.add(sequence, 999);
    let most = 0;
    while (world.plan() || world.complete()) {
      const rolling = sequences.filter(({ snapshots }) => snapshots.some(({ kind }) => kind === 'rolling'));
      most = Math.max(most, rolling.length);
    }
    expect(most).toBe(2);
  });
});

describe('any schedule with states and snapshots of them', () => {
  it('ends every sequence with the tokens of a plain run, and reads no state but that of its own tokens', () => {
    const totals = new ScheduleTotals();
    fc.assert(
      fc.property(
        fc.record({
          ...worldLimits(80),
          snapshots: fc.integer({ min: 1, max: 12 }),
          draftTokens: fc.integer({ min: 0, max: 3 }),
        }),
        fc.integer({ min: 1, max: 2 }),
        operations,
        (options, depth, steps) => {
          const snapshotRule = { least: 16, every: 32, ending: 2 };
          const world = new World({ ...options, isRecurrent: true, snapshotRule }, depth);
          play(world, steps, totals);
        },
      ),
      { numRuns: runs(1500), seed: seed(20261124) },
    );
    console.log('schedules with snapshots:', { ...totals });
    expect(totals.preemptions).toBeGreaterThanOrEqual(scaled(100));
    expect(totals.crashes).toBeGreaterThanOrEqual(scaled(100));
    expect(totals.maskMisses).toBeGreaterThanOrEqual(scaled(1000));
    expect(totals.cachedTokens / 16).toBeGreaterThanOrEqual(scaled(1000));
    expect(totals.snapshotsRead).toBeGreaterThanOrEqual(scaled(1000));
    expect(totals.snapshotsWritten).toBeGreaterThanOrEqual(scaled(1000));
    expect(totals.acceptedDraftTokens).toBeGreaterThanOrEqual(scaled(500));
    expect(totals.replayedPositions).toBeGreaterThanOrEqual(scaled(1000));
    expect(totals.snapshotsBeforeDrafts).toBeGreaterThanOrEqual(scaled(20));
  });
});
