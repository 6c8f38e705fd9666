import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Blame } from '../../../../src/gateway/replica/scheduler/blame.js';
import { GREEDY, Sequence } from '../../../../src/gateway/request/sequence.js';

const sequence = () => new Sequence({ promptIds: Uint32Array.of(1), sampling: GREEDY, maxTokens: 9, priority: 0 });
const sequences = (count: number) => Array.from({ length: count }, sequence);

/** Runs steps of everybody who may run, until nobody is blamed any more or somebody is found guilty. */
function search(blame: Blame, all: readonly Sequence[], guilty: Sequence, end: number) {
  let faults = 0;
  for (let step = 0; step < 1000; step++) {
    if (blame.wantsControl) blame.beginControl(sequence());
    const running = [...all, ...(blame.control ? [blame.control] : [])].filter((one) => blame.mayRun(one));
    if (running.includes(guilty)) {
      faults += 1;
      for (const one of all) one.computed = 0;
      expect(blame.faulted(running.map((one) => ({ sequence: one, end })))).toBe(false);
    } else {
      for (const one of running) {
        one.computed = end;
        const found = blame.progressed(one);
        if (found) return { found, faults };
      }
    }
  }
  return { found: undefined, faults };
}

/** Lets one sequence fault until it is accused. */
function accuse(blame: Blame, one: Sequence): void {
  for (let fault = 0; fault < 3; fault++) expect(blame.faulted([{ sequence: one, end: 5 }])).toBe(false);
}

describe('blame', () => {
  it('of a single fault holds nobody back', () => {
    const blame = new Blame();
    const all = sequences(3);
    expect(blame.faulted(all.map((one) => ({ sequence: one, end: 5 })))).toBe(false);
    expect(blame.isSearching).toBe(false);
  });

  it('is cleared by getting past the position of the fault, not by less', () => {
    const blame = new Blame();
    const [one] = sequences(1) as [Sequence];
    blame.faulted([{ sequence: one, end: 5 }]);
    one.computed = 4;
    blame.progressed(one);
    blame.faulted([{ sequence: one, end: 5 }]);
    expect(blame.isSearching).toBe(true);
    one.computed = 5;
    blame.progressed(one);
    expect(blame.isSearching).toBe(false);
    expect(blame.faulted([{ sequence: one, end: 9 }])).toBe(false);
    expect(blame.isSearching).toBe(false);
  });

  it('quarantines exactly the one that faults, within log2 + 2 faults, wherever it is', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 100 }), fc.nat(), (count, which) => {
        const all = sequences(count);
        const guilty = all[which % count] as Sequence;
        const { found, faults } = search(new Blame(), all, guilty, 7);
        expect(found).toBe(guilty);
        expect(faults).toBeLessThanOrEqual(Math.max(1, Math.ceil(Math.log2(count))) + 2);
      }),
    );
  });

  it('of 64 finds the guilty one within 8 restarts', () => {
    for (let i = 0; i < 64; i++) {
      const all = sequences(64);
      expect(search(new Blame(), all, all[i] as Sequence, 3).faults).toBeLessThanOrEqual(8);
    }
  });

  it('is settled by a control alone: while it runs nobody else does', () => {
    const blame = new Blame();
    const [guilty, other, control] = sequences(3) as [Sequence, Sequence, Sequence];
    accuse(blame, guilty);
    expect(blame.wantsControl).toBe(true);
    expect([guilty, other].some((one) => blame.mayRun(one))).toBe(false);
    blame.beginControl(control);
    expect(blame.mayRun(control)).toBe(true);
    expect(blame.progressed(control)).toBe(guilty);
    expect(blame.isSearching).toBe(false);
    expect(blame.mayRun(other)).toBe(true);
  });

  it('is nobody’s when the control faults too: the executor is unhealthy', () => {
    const blame = new Blame();
    const [one, control] = sequences(2) as [Sequence, Sequence];
    accuse(blame, one);
    blame.beginControl(control);
    expect(blame.faulted([{ sequence: control, end: 1 }])).toBe(true);
    expect(blame.isSearching).toBe(false);
    expect(blame.mayRun(one)).toBe(true);
  });

  it('waits for the control through a fault in which it had not begun', () => {
    const blame = new Blame();
    const [one, control] = sequences(2) as [Sequence, Sequence];
    accuse(blame, one);
    blame.beginControl(control);
    expect(blame.faulted([])).toBe(false);
    expect(blame.progressed(control)).toBe(one);
  });

  it('is over when the accused ends by itself', () => {
    const blame = new Blame();
    const [one, other] = sequences(2) as [Sequence, Sequence];
    accuse(blame, one);
    blame.ended(one);
    expect([blame.isSearching, blame.wantsControl, blame.mayRun(other)]).toEqual([false, false, true]);
  });

  it('moves on when a suspect is cancelled', () => {
    const blame = new Blame();
    const all = sequences(2);
    const step = all.map((one) => ({ sequence: one, end: 5 }));
    blame.faulted(step);
    blame.faulted(step);
    expect(blame.isSearching).toBe(true);
    for (const one of all) blame.ended(one);
    expect(blame.isSearching).toBe(false);
  });
});
