import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Scheduler } from '../../../../src/gateway/replica/scheduler/scheduler.js';
import type { StepPlan } from '../../../../src/gateway/replica/scheduler/step-plan.js';
import { GREEDY, Sequence } from '../../../../src/gateway/request/sequence.js';
import { runs, seed } from '../../../support/run-size.js';

const LIMITS = { maxSequences: 8, maxStepTokens: 100, kvBlocks: 8 * 7 + 1, isEncoder: true, prefixCache: true };
const schedulerOf = (limits = LIMITS) => new Scheduler(limits);

const inputOf = (tokens: number, peer = '', priority = 0): Sequence =>
  new Sequence({
    ...{ promptIds: new Uint32Array(tokens).fill(1), sampling: GREEDY, maxTokens: 1, priority, peer },
    ...{ takesPrefix: false, returns: { pooling: 'mean' as const } },
  });

/** A step's result: what it computed has ended, as the engine ends it. */
function complete(scheduler: Scheduler, plan: StepPlan): void {
  scheduler.complete([]);
  for (const { sequence } of plan.slices) scheduler.end(sequence);
  scheduler.check();
}

const countsOf = (plan: StepPlan | undefined) => plan?.slices.map(({ count }) => count);

describe('a scheduler of an encoder', () => {
  it('computes each input in one slice, as many in a step as fit, and samples nothing', () => {
    const scheduler = schedulerOf();
    for (const tokens of [60, 30, 20, 10, 100]) scheduler.add(inputOf(tokens));
    const first = scheduler.plan()!;
    expect(countsOf(first)).toEqual([60, 30, 10]);
    const second = scheduler.plan()!;
    expect(countsOf(second)).toEqual([20]);
    expect(countsOf(scheduler.plan())).toEqual([100]);
    expect(scheduler.plan()).toBeUndefined();
    for (const { sample, pooling } of [...first.slices, ...second.slices])
      expect([sample, pooling]).toEqual([false, 'mean']);
  });

  it('says of inputs longer than a step that they can never run', () => {
    expect([100, 101].map((tokens) => schedulerOf().canEverRun(tokens))).toEqual([true, false]);
  });

  it('lets a long input begin a step, although its client’s share of it is smaller', () => {
    const scheduler = schedulerOf();
    const long = inputOf(90, 'long');
    for (let i = 0; i < 30; i++) scheduler.add(inputOf(20, `short ${i % 3}`));
    scheduler.add(long);
    for (let steps = 1; long.state !== 'ended'; steps++) {
      expect(steps).toBeLessThan(8);
      complete(scheduler, scheduler.plan()!);
    }
  });

  it('finds nothing in blocks, and computes again what was under way when its executor was lost', () => {
    const scheduler = schedulerOf();
    const [one, other] = [inputOf(48), inputOf(48)];
    scheduler.add(one);
    complete(scheduler, scheduler.plan()!);
    scheduler.add(other);
    expect(countsOf(scheduler.plan())).toEqual([48]);
    scheduler.suspend();
    const again = scheduler.plan()!;
    expect(again.slices.map(({ position, count }) => [position, count])).toEqual([[0, 48]]);
    complete(scheduler, again);
    expect(scheduler.counters.cachedTokens).toBe(0);
  });

  it('ends every input after one slice of all its tokens, whatever comes, and whenever executors are lost', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.tuple(fc.integer({ min: 1, max: 100 }), fc.constantFrom('a', 'b', 'c'), fc.integer({ min: 0, max: 1 })),
          { minLength: 1, maxLength: 40 },
        ),
        fc.array(fc.constantFrom('plan', 'complete', 'add', 'lose'), { maxLength: 60 }),
        (inputs, actions) => {
          const scheduler = schedulerOf();
          const sequences = inputs.map(([tokens, peer, priority]) => inputOf(tokens, peer, priority));
          const left = [...sequences];
          let plans: StepPlan[] = [];
          const act = (action: string): void => {
            if (action === 'add') for (const sequence of left.splice(0, 5)) scheduler.add(sequence);
            if (action === 'complete' && plans.length > 0) complete(scheduler, plans.shift()!);
            if (action === 'lose') {
              plans = [];
              scheduler.suspend();
            }
            if (action !== 'plan' || plans.length >= 2) return;
            const plan = scheduler.plan();
            if (plan === undefined) return;
            plans.push(plan);
            expect(plan.slices.reduce((sum, { count }) => sum + count, 0)).toBeLessThanOrEqual(100);
            for (const { position, count, sequence } of plan.slices)
              expect([position, count]).toEqual([0, sequence.options.promptIds.length]);
          };
          for (const action of actions) act(action);
          for (let i = 0; i < 9; i++) act('add');
          for (let i = 0; i < 200 && sequences.some(({ state }) => state !== 'ended'); i++) {
            act('plan');
            act('complete');
          }
          expect(sequences.map(({ state }) => state)).toEqual(sequences.map(() => 'ended'));
        },
      ),
      { seed: seed(17), numRuns: runs(600, 40) },
    );
  });
});
