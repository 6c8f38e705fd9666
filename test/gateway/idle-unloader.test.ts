import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { IdleUnloader } from '../../src/gateway/idle-unloader.js';
import type { Logger } from '../../src/shared/log.js';

const IDLE_MS = 1000;
const log = { info: () => undefined } as unknown as Logger;

/** A model's router with the state that a test sets. */
class NotingRouter {
  active = 0;
  submissions = 0;
  loads = 0;
  canServe = true;
  isLoaded = true;
  unloads = 0;

  unloadModel(): void {
    this.unloads += 1;
    this.isLoaded = false;
  }
}

let router: NotingRouter;
let idleUnloader: IdleUnloader;
const start = (idleUnloadMs: number | undefined, onDemand = false, replicas = 1, isUnloadable = false) => {
  router = new NotingRouter();
  idleUnloader = new IdleUnloader(router, { replicas, onDemand, idleUnloadMs, isUnloadable }, log);
};
beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] }));
afterEach(() => {
  idleUnloader.stop();
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
  idleUnloader.heard(0, 'serving');
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

it('counts executors that are unloaded and that come back, and no others', () => {
  start(undefined, false, 2);
  for (const state of ['serving', 'suspect', 'restarting', 'starting', 'serving'] as const)
    idleUnloader.heard(0, state);
  expect([idleUnloader.isUnloaded, idleUnloader.counters]).toEqual([false, { unloads: 0, loads: 0 }]);
  idleUnloader.heard(0, 'unloading');
  expect(idleUnloader.isUnloaded).toBe(false);
  idleUnloader.heard(1, 'unloading');
  expect(idleUnloader.isUnloaded).toBe(true);
  for (const state of ['unloaded', 'starting', 'warming'] as const) idleUnloader.heard(1, state);
  expect(idleUnloader.isUnloaded).toBe(true);
  idleUnloader.heard(1, 'serving');
  expect([idleUnloader.isUnloaded, idleUnloader.counters]).toEqual([false, { unloads: 2, loads: 1 }]);
});

it('says of a model whose load was refused that it is not there for the asking', () => {
  start(undefined, true);
  expect(idleUnloader.isUnloaded).toBe(true);
  router.canServe = false;
  expect(idleUnloader.isUnloaded).toBe(false);
});

describe('the idle time of a request', () => {
  /** Idles until the model is unloaded. @returns the time (ms), rounded to when it is looked at */
  const idle = (): number => {
    const before = router.unloads;
    router.isLoaded = true;
    router.submissions += 1;
    vi.advanceTimersByTime(IDLE_MS / 10);
    let ms = 0;
    for (; router.unloads === before; ms += IDLE_MS / 10) vi.advanceTimersByTime(IDLE_MS / 10);
    idleUnloader.heard(0, 'unloading');
    idleUnloader.heard(0, 'serving');
    return ms;
  };

  it('is in force until the model is unloaded, for requests of other APIs, too', () => {
    start(IDLE_MS);
    expect(idleUnloader.keepAlive(3 * IDLE_MS)).toBe(true);
    // Requests without one come and go.
    for (let i = 0; i < 3; i++) {
      router.submissions += 1;
      vi.advanceTimersByTime(2 * IDLE_MS);
    }
    expect(router.unloads).toBe(0);
    expect(idle()).toBe(3 * IDLE_MS);
    expect(idle()).toBe(IDLE_MS);
  });

  it('is in force where requests may unload the model and no idle time is set', () => {
    start(undefined);
    expect(idleUnloader.keepAlive(IDLE_MS)).toBe(false);
    start(undefined, false, 1, true);
    expect(idleUnloader.keepAlive(3 * IDLE_MS)).toBe(true);
    // It is looked at each second.
    expect(Math.floor(idle() / IDLE_MS)).toBe(3);
    vi.advanceTimersByTime(10 * IDLE_MS);
    expect(router.unloads).toBe(1);
  });

  it('is in force after the load that its request waits for', () => {
    start(IDLE_MS, true);
    idleUnloader.keepAlive(3 * IDLE_MS);
    idleUnloader.heard(0, 'serving');
    expect(idle()).toBe(3 * IDLE_MS);
  });

  it('of 0, which unloads the model at once, is not that of the next load', async () => {
    start(IDLE_MS);
    router.isLoaded = false;
    idleUnloader.keepAlive(0);
    expect(await idleUnloader.unload(new AbortController().signal)).toBe(true);
    expect(idle()).toBe(IDLE_MS);
  });

  it('means nothing where models are not unloaded', () => {
    start(undefined);
    expect(idleUnloader.keepAlive(1)).toBe(false);
    vi.advanceTimersByTime(IDLE_MS);
    expect(router.unloads).toBe(0);
  });
});
