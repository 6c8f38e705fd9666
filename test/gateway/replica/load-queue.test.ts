import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { SupervisorState } from '../../../src/gateway/replica/link/supervision.js';
import { LoadQueue, type ModelPlace } from '../../../src/gateway/replica/load-queue.js';
import type { Logger } from '../../../src/shared/log.js';

const POLL_MS = 20;
const logged: object[] = [];
const log = { info: (fields: object) => void logged.push(fields) } as unknown as Logger;

/** A model whose executor starts and ends when the test says so. */
class NotingModel {
  state: SupervisorState = 'unloaded';
  generations = 0;
  readonly place: ModelPlace;

  constructor(
    queue: LoadQueue,
    readonly name: string,
  ) {
    this.place = queue.add(
      {
        name,
        active: () => this.generations,
        states: () => [this.state],
        load: () => {
          if (this.state === 'unloaded') this.become('starting');
        },
        unload: () => {
          if (this.state === 'serving' && this.generations === 0) this.become('unloading');
          return this.state !== 'serving';
        },
      },
      false,
    );
  }

  become(state: SupervisorState): void {
    this.state = state;
    this.place.heard();
  }

  /** A generation comes, and stays. */
  request(): void {
    this.generations += 1;
    this.place.request();
  }

  end(): void {
    this.generations -= 1;
    this.place.used();
  }

  /** It was loaded and used, and is idle. */
  serve(): void {
    this.request();
    expect(this.state).toBe('starting');
    this.become('serving');
    this.end();
  }
}

let queue: LoadQueue;
let models: Record<'a' | 'b' | 'c' | 'd', NotingModel>;
const start = (most: number) => {
  queue = new LoadQueue(most, log);
  const model = (name: string) => new NotingModel(queue, name);
  models = { a: model('a'), b: model('b'), c: model('c'), d: model('d') };
};
const polled = () => void vi.advanceTimersByTime(POLL_MS);
const states = () => [models.a.state, models.b.state, models.c.state, models.d.state];
beforeEach(() => {
  logged.length = 0;
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
});
afterEach(() => {
  queue.close();
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

it('unloads the least recently used model for one more, and loads that when the memory is free', () => {
  start(2);
  models.a.serve();
  models.b.serve();
  models.a.request();
  models.a.end();
  models.c.request();
  expect(states()).toEqual(['serving', 'unloading', 'unloaded', 'unloaded']);
  expect(logged).toEqual([{ model: 'b', next: 'c' }]);
  polled();
  expect([models.c.state, models.c.place.isWaiting]).toEqual(['unloaded', true]);
  models.b.become('unloaded');
  polled();
  expect(states()).toEqual(['serving', 'unloaded', 'starting', 'unloaded']);
  expect(models.c.place.isWaiting).toBe(false);
});

it('counts the end of a request as use', () => {
  start(2);
  models.a.serve();
  models.b.serve();
  models.a.request();
  models.b.request();
  models.b.end();
  models.a.end();
  models.c.request();
  expect(states().slice(0, 2)).toEqual(['serving', 'unloading']);
});

it('unloads no model with running or queued requests, and serves who waits in the order in which they came', () => {
  start(1);
  models.a.serve();
  models.a.request();
  for (const model of [models.b, models.c]) model.request();
  models.b.request();
  for (let i = 0; i < 100; i++) polled();
  expect(states()).toEqual(['serving', 'unloaded', 'unloaded', 'unloaded']);
  models.a.end();
  polled();
  models.a.become('unloaded');
  polled();
  expect(states()).toEqual(['unloaded', 'starting', 'unloaded', 'unloaded']);
  models.b.become('serving');
  models.b.end();
  polled();
  expect(models.b.state).toBe('serving');
  models.b.end();
  polled();
  models.b.become('unloaded');
  polled();
  expect(states()).toEqual(['unloaded', 'unloaded', 'starting', 'unloaded']);
});

it('unloads one model for one that waits, not another at each poll', () => {
  start(3);
  for (const model of [models.a, models.b, models.c]) model.serve();
  for (let i = 0; i < 3; i++) models.d.request();
  for (let i = 0; i < 100; i++) polled();
  expect(states()).toEqual(['unloading', 'serving', 'serving', 'unloaded']);
});

it.each(['a generation', 'a wish'])('is left by %s whose wait ended', (kind) => {
  start(1);
  models.a.serve();
  models.a.request();
  const wish = kind === 'a wish' ? models.b.place.wish() : undefined;
  if (wish === undefined) models.b.request();
  polled();
  expect(models.b.place.isWaiting).toBe(true);
  if (wish === undefined) models.b.end();
  else wish.end();
  models.a.end();
  polled();
  expect(models.b.place.isWaiting).toBe(false);
  for (let i = 0; i < 100; i++) polled();
  expect(states()).toEqual(['serving', 'unloaded', 'unloaded', 'unloaded']);
  expect(vi.getTimerCount()).toBe(0);
});

it('loads what is only expected where a place is free or another model is idle, and waits for none', () => {
  start(1);
  models.a.place.expect();
  expect(models.a.state).toBe('starting');
  // Another that begins is not waited for.
  models.b.place.expect();
  polled();
  expect(models.b.place.isWaiting).toBe(false);
  models.a.become('serving');
  models.b.place.expect();
  expect(states().slice(0, 2)).toEqual(['unloading', 'unloaded']);
  polled();
  models.a.become('unloaded');
  polled();
  expect(models.b.state).toBe('starting');
});

it('keeps the place of a model whose executor is killed and comes back', () => {
  start(1);
  models.a.serve();
  for (const state of ['suspect', 'restarting', 'starting', 'warming'] as const) {
    models.a.become(state);
    models.b.request();
    polled();
    expect([models.a.state, models.b.state]).toEqual([state, 'unloaded']);
    models.b.end();
    polled();
  }
  models.a.become('serving');
  models.b.request();
  expect(models.a.state).toBe('unloading');
});

it('gives the place of a model that could not be loaded to the next', () => {
  start(1);
  models.a.request();
  models.b.request();
  models.a.become('failed');
  models.a.end();
  polled();
  expect(models.b.state).toBe('unloaded');
  models.a.become('unloaded');
  polled();
  expect(models.b.state).toBe('starting');
});

it('loads a model again that was unloaded for another, when the other is idle', () => {
  start(1);
  models.a.serve();
  models.b.request();
  models.a.request();
  expect(models.a.place.isWaiting).toBe(true);
  models.a.become('unloaded');
  polled();
  expect(states().slice(0, 2)).toEqual(['unloaded', 'starting']);
  models.b.become('serving');
  models.b.end();
  polled();
  models.b.become('unloaded');
  polled();
  expect(states().slice(0, 2)).toEqual(['starting', 'unloaded']);
});
