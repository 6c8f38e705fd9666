import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Residency } from '../../src/gateway/residency.js';
import type { Logger } from '../../src/shared/log.js';

const IDLE_MS = 1000;
const log = { info: () => undefined } as unknown as Logger;

/** What a model's router says, as a test sets it. */
class NotingRouter {
  active = 0;
  submissions = 0;
  canServe = true;
  isLoaded = true;
  unloads = 0;

  unloadModel(): void {
    this.unloads += 1;
    this.isLoaded = false;
  }
}

let router: NotingRouter;
let residency: Residency;
const start = (idleUnloadMs: number | undefined, onDemand = false, replicas = 1) => {
  router = new NotingRouter();
  residency = new Residency(router, { replicas, onDemand, idleUnloadMs }, log);
};
beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] }));
afterEach(() => {
  residency.stop();
  vi.useRealTimers();
});

it('puts a model away when nobody has asked for it for so long since the start', () => {
  start(IDLE_MS);
  vi.advanceTimersByTime(IDLE_MS - 1);
  expect(router.unloads).toBe(0);
  vi.advanceTimersByTime(IDLE_MS / 10 + 1);
  expect(router.unloads).toBe(1);
  // Once is enough.
  vi.advanceTimersByTime(5 * IDLE_MS);
  expect(router.unloads).toBe(1);
});

it('does not while something is under way, however long, and counts from its end', () => {
  start(IDLE_MS);
  router.active = 1;
  vi.advanceTimersByTime(10 * IDLE_MS);
  router.active = 0;
  vi.advanceTimersByTime(IDLE_MS - 1);
  expect(router.unloads).toBe(0);
  vi.advanceTimersByTime(IDLE_MS / 10 + 1);
  expect(router.unloads).toBe(1);
});

it('counts from a request that came and went between two looks', () => {
  start(IDLE_MS);
  vi.advanceTimersByTime(IDLE_MS - 50);
  router.submissions += 1;
  vi.advanceTimersByTime(IDLE_MS);
  expect(router.unloads).toBe(0);
  vi.advanceTimersByTime(IDLE_MS / 10 + 50);
  expect(router.unloads).toBe(1);
});

it('gives a model that was loaded for somebody who has gone its time', () => {
  start(IDLE_MS, true);
  router.isLoaded = false;
  router.submissions += 1;
  vi.advanceTimersByTime(3 * IDLE_MS);
  router.isLoaded = true;
  residency.heard(0, 'serving');
  vi.advanceTimersByTime(IDLE_MS - 1);
  expect(router.unloads).toBe(0);
  vi.advanceTimersByTime(IDLE_MS / 10 + 1);
  expect(router.unloads).toBe(1);
});

it('never does where nobody said so', () => {
  start(undefined);
  vi.advanceTimersByTime(1000 * IDLE_MS);
  expect(router.unloads).toBe(0);
});

it('counts executors that are put away and that come back, and no others', () => {
  start(undefined, false, 2);
  for (const state of ['serving', 'suspect', 'restarting', 'starting', 'serving'] as const) residency.heard(0, state);
  expect([residency.isAway, residency.counters]).toEqual([false, { unloads: 0, loads: 0 }]);
  residency.heard(0, 'unloading');
  expect(residency.isAway).toBe(false);
  residency.heard(1, 'unloading');
  expect(residency.isAway).toBe(true);
  for (const state of ['unloaded', 'starting', 'warming'] as const) residency.heard(1, state);
  expect(residency.isAway).toBe(true);
  residency.heard(1, 'serving');
  expect([residency.isAway, residency.counters]).toEqual([false, { unloads: 2, loads: 1 }]);
});

it('says of a model whose load was refused that it is not there for the asking', () => {
  start(undefined, true);
  expect(residency.isAway).toBe(true);
  router.canServe = false;
  expect(residency.isAway).toBe(false);
});
