import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BLOCK_TOKENS } from '../../../../src/gateway/replica/scheduler/block-manager.js';
import { StateSnapshots } from '../../../../src/gateway/replica/scheduler/state-snapshots.js';
import type { Sequence } from '../../../../src/gateway/request/sequence.js';
import { runs, scaled, seed } from '../../../support/run-size.js';
import { sequenceOf } from '../../../support/scheduler-world.js';

/** Reference of a table of snapshots: the holders, the prefix of each, and the order in which free ones are taken. */
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
    arbitrary: fc.record({
      kind: fc.constant('open' as const),
      who,
      prompt: fc.constantFrom(...PROMPTS),
      said: fc.nat(60),
    }),
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
  const counts = { begun: 0, taken: 0, inPlace: 0, allHeld: 0, late: 0, evicted: 0, shared: 0, left: 0 };

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
        if (mine === undefined) this.driven[step.who] = this.open(step.prompt, step.said);
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

    /** @param said tokens of its answer that are known: it was preempted */
    private open(prompt: number, said: number): Driven {
      const { table, model } = this;
      const sequence = sequenceOf(new Array(prompt).fill(0), 100);
      const ends = Array.from({ length: Math.floor((prompt + said - 1) / 16) }, (_, i) => 16 * (i + 1));
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
          // It has given the one up that it wrote before: somebody else goes on from that.
          if (rolling !== undefined && !sequence.snapshots.includes(rolling)) counts.left += 1;
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
      slices.length = 0;
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
      { numRuns: runs(1000), seed: seed(20261125) },
    );
    console.log('snapshots:', counts);
    for (const [what, count] of Object.entries(counts)) expect(count, what).toBeGreaterThanOrEqual(scaled(20));
  });
});
