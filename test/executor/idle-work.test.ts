import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { countingGpu } from '../../src/executor/load/fit.js';
import type { LoadedModel } from '../../src/executor/load/loaded-model.js';
import { IdleWork } from '../../src/executor/serve/idle-work.js';
import type { StepRunner } from '../../src/executor/steps/step-runner.js';

const LOAD = { path: 'model.gguf', kvCacheType: 'f16', maxContext: 64, maxSequences: 1 } as const;
const options = { ...LOAD, maxStepTokens: 32, kvMemoryBytes: 0, fingerprint: '' };

function setUp({ graphs = 2, steps = 0 } = {}) {
  const runner = { isIdle: true, stats: { steps, lastStepAgeMs: undefined } };
  const seen = { captures: 0, rehearsals: 0, isOver: (): boolean => false };
  const state = { serving: runner as unknown as StepRunner | undefined };
  const model = {
    graphs: {
      get isComplete() {
        return seen.captures === graphs;
      },
      captureNext: () => {
        seen.captures += 1;
      },
    },
  } as unknown as LoadedModel;
  const fail = (error: unknown): void => {
    throw error;
  };
  const work = new IdleWork(
    countingGpu('', 'sm_90', 2 ** 30).devices(),
    () => state.serving,
    fail,
    async (_load, _devices, isOver) => {
      seen.rehearsals += 1;
      seen.isOver = isOver;
      return [];
    },
  );
  const begin = () => work.begin(runner as unknown as StepRunner, model, options);
  return { begin, runner, seen, state };
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance', 'setInterval', 'clearInterval'] });
});

afterEach(() => {
  vi.useRealTimers();
});

it('captures half a second behind a load, and then rehearses, once', () => {
  const { begin, seen } = setUp();
  begin();
  vi.advanceTimersByTime(490);
  expect(seen.captures).toBe(0);
  vi.advanceTimersByTime(100);
  expect(seen).toMatchObject({ captures: 2, rehearsals: 1 });
  begin();
  vi.advanceTimersByTime(1000);
  expect(seen.rehearsals).toBe(1);
});

it('waits for a load and for steps, and does not rehearse behind them', () => {
  const { begin, runner, seen, state } = setUp();
  const { serving } = state;
  state.serving = undefined;
  begin();
  vi.advanceTimersByTime(1000);
  state.serving = serving;
  runner.isIdle = false;
  vi.advanceTimersByTime(1000);
  expect(seen.captures).toBe(0);
  runner.isIdle = true;
  runner.stats.steps = 1;
  vi.advanceTimersByTime(1000);
  expect(seen).toMatchObject({ captures: 2, rehearsals: 0 });
});

it('ends a rehearsal as soon as a load or a step comes', () => {
  const { begin, runner, seen, state } = setUp({ graphs: 0 });
  begin();
  vi.advanceTimersByTime(1000);
  expect(seen.rehearsals).toBe(1);
  expect(seen.isOver()).toBe(false);
  runner.isIdle = false;
  expect(seen.isOver()).toBe(true);
  runner.isIdle = true;
  state.serving = undefined;
  expect(seen.isOver()).toBe(true);
});
