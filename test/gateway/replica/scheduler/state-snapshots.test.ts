import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BLOCK_TOKENS } from '../../../../src/gateway/replica/scheduler/block-manager.js';
import type { SchedulerOptions } from '../../../../src/gateway/replica/scheduler/scheduler.js';
import { StateSnapshots } from '../../../../src/gateway/replica/scheduler/state-snapshots.js';
import { Sequence } from '../../../../src/gateway/request/sequence.js';
import { operation, play, ScheduleTotals } from '../../../support/any-schedule.js';
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
          maxSequences: fc.integer({ min: 1, max: 6 }),
          maxStepTokens: fc.integer({ min: 6, max: 80 }),
          kvBlocks: fc.integer({ min: 10, max: 40 }),
          snapshots: fc.integer({ min: 1, max: 12 }),
        }),
        fc.integer({ min: 1, max: 2 }),
        fc.array(operation, { minLength: 30, maxLength: 150 }),
        (options, depth, operations) => {
          const snapshotRule = { least: 16, every: 32, ending: 2 };
          const world = new World({ ...options, isRecurrent: true, snapshotRule }, depth);
          play(world, operations, totals);
        },
      ),
      { numRuns: 1500, seed: 20261124 },
    );
    console.log('schedules with snapshots:', { ...totals });
    expect(totals.preemptions).toBeGreaterThanOrEqual(100);
    expect(totals.crashes).toBeGreaterThanOrEqual(100);
    expect(totals.lateMasks).toBeGreaterThanOrEqual(1000);
    expect(totals.cachedTokens / 16).toBeGreaterThanOrEqual(1000);
    expect(totals.snapshotsRead).toBeGreaterThanOrEqual(1000);
    expect(totals.snapshotsWritten).toBeGreaterThanOrEqual(1000);
  });
});

/** What a table of snapshots ought to be: who holds which, what each is of, and in which order the free ones are taken. */
class Model {
  readonly free: number[];
  readonly prefixes = new Map<number, number>();
  readonly holders = new Map<number, Sequence[]>();

  constructor(readonly count: number) {
    this.free = Array.from({ length: count }, (_, i) => i + 1);
  }

  idOf(prefix: number): number | undefined {
    return [...this.prefixes].find(([, noted]) => noted === prefix)?.[0];
  }

  hold(sequence: Sequence, id: number): void {
    if (this.free.includes(id)) this.free.splice(this.free.indexOf(id), 1);
    this.holders.set(id, [...(this.holders.get(id) ?? []), sequence]);
  }

  /** Gives up what a sequence has given up since. */
  settle(sequence: Sequence): void {
    for (const [id, holders] of this.holders) {
      if (!holders.includes(sequence) || sequence.snapshots.some((held) => held.id === id)) continue;
      const left = holders.filter((holder) => holder !== sequence);
      if (left.length > 0) {
        this.holders.set(id, left);
        continue;
      }
      this.holders.delete(id);
      if (this.prefixes.has(id)) this.free.push(id);
      else this.free.unshift(id);
    }
  }
}

/** A sequence as the scheduler drives it, with slices under way. */
interface Driven {
  readonly sequence: Sequence;
  readonly slices: { position: number; end: number; to: number | undefined }[];
}

/** The prefix of sequences with the same prompt. */
const prefixOf = ({ options }: Sequence, end: number): number => 1000 * options.promptIds.length + end / BLOCK_TOKENS;

const SEQUENCES = 5;
const PROMPTS = [20, 50, 90] as const;
/** Every prefix that a sequence here has. */
const PREFIXES = PROMPTS.flatMap((prompt) => Array.from({ length: 10 }, (_, i) => 1000 * prompt + 1 + i));

const who = fc.nat(SEQUENCES - 1);
const step = fc.oneof(
  {
    weight: 40,
    arbitrary: fc.record({ kind: fc.constant('open' as const), who, prompt: fc.constantFrom(...PROMPTS) }),
  },
  {
    weight: 60,
    arbitrary: fc.record({ kind: fc.constant('plan' as const), who, rows: fc.integer({ min: 1, max: 40 }) }),
  },
  { weight: 60, arbitrary: fc.record({ kind: fc.constant('return' as const), who }) },
  {
    weight: 60,
    arbitrary: fc.record({ kind: fc.constant('generate' as const), who, tokens: fc.integer({ min: 1, max: 30 }) }),
  },
  { weight: 10, arbitrary: fc.record({ kind: fc.constant('late' as const), who }) },
  { weight: 20, arbitrary: fc.record({ kind: fc.constant('close' as const), who }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('reset' as const) }) },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

describe('the table of snapshots', () => {
  const counts = { begun: 0, taken: 0, inPlace: 0, allHeld: 0, late: 0, evicted: 0, shared: 0 };

  /** The table and its model, side by side. */
  class Twins {
    private readonly table: StateSnapshots;
    private model: Model;
    private readonly driven: (Driven | undefined)[] = Array.from({ length: SEQUENCES }, () => undefined);

    constructor(count: number) {
      this.table = new StateSnapshots(count, { least: 16, every: 32, ending: 2 });
      this.model = new Model(count);
    }

    do(step: Step): void {
      if (step.kind === 'reset') {
        this.table.reset();
        this.driven.fill(undefined);
        this.model = new Model(this.model.count);
        return;
      }
      const mine = this.driven[step.who];
      if (step.kind === 'open') {
        if (mine === undefined) this.driven[step.who] = this.open(step.prompt);
      } else if (mine === undefined) return;
      else if (step.kind === 'plan') this.plan(step.rows, mine);
      else if (step.kind === 'return') this.returned(mine);
      else if (step.kind === 'late') this.late(mine);
      else if (step.kind === 'generate') {
        for (let i = 0; i < step.tokens; i++) {
          this.plan(1, mine);
          this.returned(mine);
        }
      } else if (mine.slices.length === 0) {
        this.table.release(mine.sequence);
        this.model.settle(mine.sequence);
        this.driven[step.who] = undefined;
      }
    }

    compare(): void {
      const { table, model } = this;
      const holders = this.driven.flatMap((driven) => driven?.sequence ?? []);
      table.check(holders);
      expect([table.freeCount, table.keptCount]).toEqual([model.free.length, model.prefixes.size]);
      const found = PREFIXES.filter((prefix) => table.find([prefix]) === 1);
      expect(found).toEqual(PREFIXES.filter((prefix) => model.idOf(prefix) !== undefined));
      for (const [id, held] of model.holders) {
        for (const holder of held) expect(holder.snapshots.map((snapshot) => snapshot.id)).toContain(id);
      }
    }

    private open(prompt: number): Driven {
      const { table, model } = this;
      const sequence = sequenceOf(ids(prompt), 100);
      const ends = Array.from({ length: Math.floor((prompt - 1) / 16) }, (_, i) => 16 * (i + 1));
      const count = table.find(ends.map((end) => prefixOf(sequence, end)));
      expect(count).toBe(1 + ends.findLastIndex((end) => model.idOf(prefixOf(sequence, end)) !== undefined));
      if (count > 0) {
        const start = ends[count - 1] as number;
        table.begin(sequence, prefixOf(sequence, start), start);
        const id = model.idOf(prefixOf(sequence, start)) as number;
        expect(sequence.snapshots).toEqual([{ id, kind: 'began', position: start }]);
        counts.shared += Number(model.holders.has(id));
        counts.begun += 1;
        model.hold(sequence, id);
        sequence.scheduled = start;
        sequence.computed = start;
      }
      return { sequence, slices: [] };
    }

    private plan(rows: number, { sequence, slices }: Driven): void {
      const { table, model } = this;
      const { scheduled: position, options } = sequence;
      const prompt = options.promptIds.length;
      if (slices.length === 2 || position >= 150) return;
      const most = position < prompt ? Math.min(position + rows, prompt) : position + 1;
      const end = table.cut(sequence, most);
      expect(end).toBeGreaterThan(position);
      expect(end).toBeLessThanOrEqual(most);
      const rolling = sequence.snapshots.find(({ kind }) => kind === 'rolling');
      const holders = rolling && model.holders.get(rolling.id);
      const began = sequence.snapshots.find(({ kind }) => kind === 'began');
      const { fromSnapshot, toSnapshot: to } = table.take(sequence, end);
      expect(fromSnapshot).toBe(began?.position === position ? began.id : undefined);
      model.settle(sequence);
      if (end < most && to === undefined) {
        expect(model.free).toEqual([]);
        counts.allHeld += 1;
      }
      if (to !== undefined) {
        expect(end % 16).toBe(0);
        if (to === rolling?.id) {
          // Written in place: nobody else goes on from it.
          expect(holders).toEqual([sequence]);
          counts.inPlace += 1;
        } else {
          expect(to).toBe(model.free[0]);
          counts.taken += 1;
          counts.evicted += Number(model.prefixes.has(to));
          model.hold(sequence, to);
        }
        model.prefixes.delete(to);
      }
      slices.push({ position, end, to });
      sequence.scheduled = end;
    }

    private returned({ sequence, slices }: Driven): void {
      const slice = slices.shift();
      if (slice === undefined) return;
      const { position, end, to } = slice;
      sequence.computed = end;
      const prefix = end % 16 === 0 ? prefixOf(sequence, end) : undefined;
      this.table.returned(sequence, position, to, prefix);
      if (to !== undefined && prefix !== undefined && this.model.idOf(prefix) === undefined)
        this.model.prefixes.set(to, prefix);
      this.model.settle(sequence);
    }

    /** The oldest slice under way, and with it those behind; they come again. */
    private late({ sequence, slices }: Driven): void {
      const [first] = slices;
      if (first === undefined) return;
      for (const { to } of slices.splice(0)) this.table.missed(sequence, to);
      this.model.settle(sequence);
      sequence.scheduled = first.position;
      counts.late += 1;
    }
  }

  it('gives each snapshot one fate, the longest unused to who takes one, and none that is held', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 7 }), fc.array(step, { minLength: 40, maxLength: 160 }), (count, steps) => {
        const twins = new Twins(count);
        for (const each of steps) {
          twins.do(each);
          twins.compare();
        }
      }),
      { numRuns: 1000, seed: 20261125 },
    );
    console.log('snapshots:', counts);
    for (const [what, count] of Object.entries(counts)) expect(count, what).toBeGreaterThan(50);
  });
});
