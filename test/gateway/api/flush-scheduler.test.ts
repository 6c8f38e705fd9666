import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { FlushScheduler, type FlushTarget } from '../../../src/gateway/api/flush-scheduler.js';

describe('rounds of writes', () => {
  let clock = 0;
  let written: string[] = [];
  const writerOf = (name: string, costMs = 0): FlushTarget => ({
    flush: () => {
      clock += costMs;
      written.push(name);
    },
    abandon: () => undefined,
  });
  /** Time passes, a millisecond a turn of the loop. */
  const pass = (ms: number) => {
    for (let i = 0; i < ms; i++) {
      clock += 1;
      vi.advanceTimersByTime(1);
    }
  };

  /** Rounds that take so long each, as many as it takes for them to put off the next. */
  const longOnes = (rounds: FlushScheduler, costMs: number, name = 'long') => {
    for (let i = 0; i < 3; i++) {
      rounds.add(writerOf(name, costMs), false);
      pass(1);
    }
  };

  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setImmediate', 'setTimeout', 'clearTimeout'] });
    [clock, written] = [0, []];
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('come at once while they take no time', () => {
    const rounds = new FlushScheduler(() => clock);
    for (let i = 0; i < 5; i++) {
      rounds.add(writerOf(`${i}`), false);
      pass(1);
    }
    expect(written).toEqual(['0', '1', '2', '3', '4']);
  });

  it('wait three times as long as the last ones took, and then write all that came', () => {
    const rounds = new FlushScheduler(() => clock);
    longOnes(rounds, 3);
    const again = writerOf('again');
    for (let i = 0; i < 8; i++) {
      rounds.add(again, false);
      pass(1);
    }
    expect(written).toEqual(['long', 'long', 'long']);
    pass(4);
    expect(written).toEqual(['long', 'long', 'long', 'again']);
  });

  it('do not wait for two that took long beside one that did not', () => {
    const rounds = new FlushScheduler(() => clock);
    for (const costMs of [5, 5, 0, 5, 5, 0]) {
      rounds.add(writerOf(`${costMs}`, costMs), false);
      pass(1);
    }
    expect(written).toEqual(['5', '5', '0', '5', '5', '0']);
  });

  it('do not put off what is urgent', () => {
    const rounds = new FlushScheduler(() => clock);
    longOnes(rounds, 3);
    rounds.add(writerOf('later'), false);
    rounds.add(writerOf('first token'), true);
    pass(1);
    expect(written).toEqual(['long', 'long', 'long', 'first token']);
    pass(12);
    expect(written).toEqual(['long', 'long', 'long', 'first token', 'later']);
  });

  it('wait no longer than a reader sees', () => {
    const rounds = new FlushScheduler(() => clock);
    longOnes(rounds, 5000, 'stopped');
    rounds.add(writerOf('next'), false);
    pass(22);
    expect(written).toEqual(['stopped', 'stopped', 'stopped', 'next']);
  });
});
