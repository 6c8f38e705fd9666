import { describe, expect, it } from 'vitest';
import type { SavedContents } from '../../../../src/gateway/replica/scheduler/saved-blocks.js';
import type { Sequence } from '../../../../src/gateway/request/sequence.js';
import { SAVED_BYTES } from '../../../support/saved-model.js';
import { expectedTokens, ids, roomy, sequenceOf, VOCABULARY, World } from '../../../support/scheduler-world.js';

describe('the scheduler, after an executor has ended', () => {
  it('continues after a kill with all positions that had returned, whatever the steps under way had written', () => {
    const world = new World(roomy, 2);
    const sequences = [1, 2].map((i) => sequenceOf(ids(50, i), 40));
    for (const sequence of sequences) world.add(sequence, 99);
    for (let i = 0; i < 20; i++) {
      world.plan();
      world.complete();
    }
    world.plan();
    world.plan();
    const computed = sequences.map((sequence) => sequence.computed);
    const [steps] = [world.executor.rows.length];
    world.kill(2, true);
    const ran = world.executor.rows.length - steps;
    world.drain();
    const first = world.executor.rows[steps + ran] as number;
    expect(computed.map((count) => count % 16)).not.toContain(0);
    expect(first).toBe(sequences.length);
    for (const sequence of sequences) expect(sequence.emitted).toEqual(expectedTokens(sequence));
    expect(world.scheduler.counters.recomputedTokens).toBe(0);
  });

  it('continues after a fault with the blocks whose checksums had come, but for those that are damaged', () => {
    const world = new World(roomy, 1);
    const sequences = [1, 2].map((i) => sequenceOf(ids(50, i), 60));
    for (const sequence of sequences) world.add(sequence, 99);
    for (let i = 0; i < 30; i++) {
      world.plan();
      world.complete();
    }
    const { counters } = world.scheduler;
    const full = sequences.map(({ computed }) => computed - (computed % 16));
    world.fault(0, false, undefined);
    world.drain();
    expect([counters.keptTokens, counters.damagedBlocks]).toEqual([full.reduce((sum, count) => sum + count, 0), 0]);
    for (const sequence of sequences) expect(sequence.emitted).toEqual(expectedTokens(sequence));
    const again = sequenceOf([...ids(50, 1), 3], 3);
    world.fault(0, false, 7);
    world.add(again, 99);
    world.drain();
    expect(counters.damagedBlocks).toBeGreaterThan(0);
    expect(again.emitted).toEqual(expectedTokens(again));
  });

  it.each([
    ['where they were', undefined, 'nothing'],
    ['where they were, with a window', { window: 20, blocks: 90 }, 'nothing'],
    ['at the end of their last full blocks, where no checksum of others agrees', undefined, 'blocks'],
    ['the same where those of blocks of a window do not', { window: 20, blocks: 90 }, 'windowBlocks'],
  ] as const)('continues several sequences after a fault %s', (_, windowed, damaged) => {
    const isDamaged = damaged !== 'nothing';
    const world = new World({ ...roomy, maxStepTokens: 512, windowed }, 2);
    const sequences = [1, 2, 3, 4, 5].map((i) => sequenceOf(ids(30 + i, i), 60));
    for (const sequence of sequences) world.add(sequence, 99);
    for (let i = 0; i < 30; i++) if (!world.plan()) world.complete();
    const computed = sequences.map((sequence) => sequence.computed);
    // Behind what had returned, anything may stand there.
    for (const { blocks, windowBlocks, windowStart, computed: end } of sequences) {
      const index = Math.floor(end / 16);
      const kind = damaged === 'windowBlocks' ? damaged : 'blocks';
      const block = kind === 'blocks' ? blocks[index] : windowBlocks[index - windowStart];
      if (block !== undefined) world.executor.scribble(block, isDamaged ? 0 : end % 16, kind);
    }
    world.fault(isDamaged ? 0 : 1, !isDamaged, undefined);
    world.drain();
    const { recomputedTokens, keptTokens, damagedBlocks } = world.scheduler.counters;
    const lost = computed.map((count) => (isDamaged ? count % 16 : 0));
    // One has just filled its block, and has no other.
    expect(computed.filter((count) => count % 16 === 0)).toHaveLength(1);
    const total = (counts: number[]): number => counts.reduce((sum, count) => sum + count, 0);
    expect({ recomputedTokens, damagedBlocks }).toEqual({
      recomputedTokens: total(lost),
      damagedBlocks: isDamaged ? sequences.length - 1 : 0,
    });
    expect(keptTokens).toBe(total(computed) - total(lost));
    for (const sequence of sequences) expect(sequence.emitted).toEqual(expectedTokens(sequence));
  });

  it.each([true, false])(
    'keeps no list of blocks whose checksums are never requested: they are wanted %s',
    (isWanted) => {
      const world = new World(roomy, 1);
      world.scheduler.checksums.isWanted = isWanted;
      let asked = 0;
      for (let i = 0; i < 40; i++) world.add(sequenceOf(ids(50, i), 40), 99);
      while (world.plan()) {
        asked += world.scheduler.oldestStep?.checksums?.blocks.length ?? 0;
        world.complete();
        expect(world.scheduler.blocks.unsummedCount).toBeLessThan(40);
      }
      expect(asked > 0).toBe(isWanted);
    },
  );

  it('after a fault starts nothing before all blocks have been compared, not after a kill meanwhile, either', () => {
    const world = new World(roomy, 1);
    for (const i of [1, 2]) world.add(sequenceOf(ids(80, i), 4), 99);
    world.drain();
    const next = sequenceOf([...ids(80, 1), 3], 3);
    world.add(next, 99);
    world.fault(0, false, 5);
    world.plan();
    world.kill(0, false);
    while (next.state === 'waiting' && world.plan()) world.complete();
    expect(world.scheduler.counters.damagedBlocks).toBeGreaterThan(0);
    world.drain();
    expect(next.emitted).toEqual(expectedTokens(next));
  });

  it('computes a sequence again after a crash from the tokens it has, in as many steps as the budget needs', () => {
    const world = new World({ ...roomy, maxStepTokens: 64 }, 2);
    const sequence = sequenceOf(ids(20), 256);
    world.add(sequence, 256);
    while (sequence.emitted.length < 200) if (!world.plan()) world.complete();
    const before = world.executor.rows.length;
    world.crash();
    const left = 256 - sequence.emitted.length;
    world.drain();
    expect(sequence.emitted).toEqual(expectedTokens(sequence));
    const steps = world.executor.rows.slice(before);
    expect(steps.filter((rows) => rows > 1).length).toBeLessThanOrEqual(1 + Math.ceil(220 / 64));
    expect(steps.filter((rows) => rows === 1).length).toBeLessThanOrEqual(left);
  });

  it.each([
    ['less', 12],
    ['more', 300],
  ])('finds what the host’s memory has of it though the next executor has %s memory', (_, kvBlocks) => {
    const before = new World(roomy, 1);
    const first = sequenceOf(ids(100), 20);
    const last = sequenceOf(ids(60, 3), 20);
    for (const sequence of [first, last]) {
      before.add(sequence, 99);
      before.drain();
    }
    before.scheduler.saving.begin(SAVED_BYTES, 1000);
    before.drain();
    const after = new World({ ...roomy, kvBlocks }, 1);
    Object.assign(after.executor, { saved: before.executor.saved });
    after.scheduler.restoreContents(before.scheduler.saving.contents as SavedContents);
    const next = sequenceOf([...ids(60, 3), ...last.emitted, 7], 5);
    after.add(next, 99);
    after.drain();
    expect(next.emitted).toEqual(expectedTokens(next));
    expect(after.scheduler.counters).toMatchObject({ cachedTokens: 64, damagedBlocks: 0 });
    // The last ones are kept if there is less memory.
    expect(after.scheduler.counters.restoredBlocks).toBe(Math.min(kvBlocks - 1, before.scheduler.blocks.cachedCount));
    // New content is not taken for what was there before.
    const other = sequenceOf(ids(90, 9), 5);
    after.add(other, 99);
    after.drain();
    expect(other.emitted).toEqual(expectedTokens(other));
  });

  it('begins what needs nothing of it while others wait for what is brought back', () => {
    const world = new World({ ...roomy, kvBlocks: 80 }, 2);
    const long = sequenceOf(ids(600, 1), 4);
    world.add(long, 99);
    world.drain();
    expect(world.unload(1000, false)).toBe(true);
    const next = sequenceOf([...ids(600, 1), ...long.emitted, 7], 4);
    world.add(next, 99);
    for (let i = 0; i < 4; i++) if (!world.plan()) world.complete();
    const other = sequenceOf(ids(30, 9), 4);
    world.add(other, 99);
    while (other.emitted.length === 0) if (!world.plan()) world.complete();
    expect(next.emitted).toEqual([]);
    expect(world.scheduler.restores.isAwaited).toBe(true);
    world.drain();
    for (const sequence of [next, other]) expect(sequence.emitted).toEqual(expectedTokens(sequence));
    expect(world.scheduler.counters.cachedTokens).toBe(592);
  });

  it('brings back first what is waited for, beside what runs, and nothing to blocks that were taken', () => {
    const world = new World({ ...roomy, kvBlocks: 34 }, 2);
    const conversations = [1, 2, 3, 4].map((seed) => sequenceOf(ids(100, seed), 12));
    for (const sequence of conversations) {
      world.add(sequence, 99);
      world.drain();
    }
    expect(world.unload(1000, false)).toBe(true);
    // It takes the blocks of the conversation that was used first, and some of the next one's, before these are back.
    const other = sequenceOf(ids(220, 9), 30);
    world.add(other, 99);
    for (let i = 0; i < 6; i++) if (!world.plan()) world.complete();
    const { counters } = world.scheduler;
    expect(counters.restoredBlocks).toBe(0);
    const [, second, , last] = conversations as [Sequence, Sequence, Sequence, Sequence];
    const next = [last, second].map(({ options, emitted }) => sequenceOf([...options.promptIds, ...emitted, 7], 12));
    for (const sequence of next) world.add(sequence, 99);
    while (next.some(({ emitted }) => emitted.length === 0)) if (!world.plan()) world.complete();
    // The rest, for which no sequence waits, is not back while these run.
    expect(world.scheduler.restores.isUnderWay).toBe(true);
    world.drain();
    for (const sequence of [other, ...next]) expect(sequence.emitted).toEqual(expectedTokens(sequence));
    expect(world.scheduler.restores.isUnderWay).toBe(false);
    expect(counters).toMatchObject({ damagedBlocks: 0 });
    expect(counters.cachedTokens).toBeGreaterThanOrEqual(96);
  });

  it.each([
    ['a window', { windowed: { window: 48, blocks: 60 } }],
    ['states', { isRecurrent: true, snapshots: 20, snapshotRule: { least: 16, every: 64, ending: 1 } }],
  ])('takes nothing for what was saved though it is for another executor: %s', (_, more) => {
    const options = { maxSequences: 4, maxStepTokens: 64, kvBlocks: 60, ...more };
    const mixed = (seed: number, length: number) =>
      Array.from({ length }, (_, i) => (seed * 13 + i * i * 3 + i * seed) % VOCABULARY);
    for (const kvBlocks of [24, 40, 61]) {
      for (let most = 20; most < 120; most += 20) {
        const before = new World(options, 2);
        before.add(sequenceOf(mixed(1, 300), 4), 99);
        before.drain();
        before.scheduler.saving.begin(SAVED_BYTES, most);
        before.drain();
        const after = new World({ ...options, kvBlocks }, 2);
        Object.assign(after.executor, { saved: before.executor.saved });
        after.scheduler.restoreContents(before.scheduler.saving.contents as SavedContents);
        for (let length = 20; length < 300; length += 40) {
          const next = sequenceOf(mixed(2 + length, length), 2);
          after.add(next, 99);
          after.drain();
          expect(next.emitted).toEqual(expectedTokens(next));
        }
      }
    }
  });

  it('saves states with the blocks before them, if there is not room for all', () => {
    const options = { ...roomy, isRecurrent: true, snapshots: 20, snapshotRule: { least: 16, every: 64, ending: 1 } };
    const world = new World(options, 1);
    for (const seed of [1, 2, 3]) {
      world.add(sequenceOf(ids(200, seed), 4), 99);
      world.drain();
    }
    const all = world.scheduler.blocks.cachedCount + world.scheduler.snapshots.keptCount;
    world.scheduler.saving.begin(SAVED_BYTES, 4 * Math.floor(all / 2));
    world.drain();
    const { contents } = world.scheduler.saving;
    world.executor.crash();
    world.scheduler.suspend();
    world.scheduler.restoreContents(contents as SavedContents);
    const next = sequenceOf([...ids(200, 3), 5], 3);
    world.add(next, 99);
    world.drain();
    expect(next.emitted).toEqual(expectedTokens(next));
    expect(world.scheduler.counters.cachedTokens).toBeGreaterThanOrEqual(192);
  });
});
