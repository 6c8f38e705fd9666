import { beforeEach, expect, it } from 'vitest';
import { type Drained, drain } from '../../src/gateway/drain.js';

let active: number;
let accepted: number;
let unread: number;
let lines: [level: string, fields: Record<string, unknown>, message: string][];

const models = {
  announceEnd: () => undefined,
  stopAdmission: () => undefined,
  endAll: () => {
    active = 0;
    unread = 0;
  },
  get active() {
    return active;
  },
  get accepted() {
    return accepted;
  },
};
const server = {
  shutDown: () => Promise.resolve(),
  calls: {
    get unansweredCalls() {
      return active + unread;
    },
  },
};
const log = {
  info: (fields: Record<string, unknown>, message: string) => lines.push(['info', fields, message]),
  warn: (fields: Record<string, unknown>, message: string) => lines.push(['warn', fields, message]),
};
const drained = { models, server, httpServer: undefined, showHealth: () => undefined, log } as unknown as Drained;

beforeEach(() => {
  [active, accepted, unread, lines] = [3, 10, 0, []];
});

it('logs how many streams there are, and that all of them ended by themselves', async () => {
  setTimeout(() => {
    active = 0;
  }, 20);
  expect(await drain(drained, 5000, 0)).toBe(true);
  expect(lines).toEqual([
    ['info', { streams: 3, timeoutMs: 5000, delayMs: 0 }, expect.stringMatching(/^draining: /)],
    ['info', { ended: 3, cut: 0, durationMs: expect.any(Number) }, 'drained: all streams ended by themselves'],
  ]);
});

it('logs how many streams ended by themselves and how many were cut, those that came during the delay included', async () => {
  setTimeout(() => {
    accepted += 4;
    active = 2;
  }, 20);
  expect(await drain(drained, 100, 50)).toBe(false);
  expect(lines).toEqual([
    ['info', { streams: 3, timeoutMs: 100, delayMs: 50 }, expect.any(String)],
    [
      'warn',
      { ended: 5, cut: 2, unansweredRequests: 2, durationMs: expect.any(Number) },
      'drain timed out: the remaining streams are cut',
    ],
  ]);
});

it('tells a response that is not read from a stream that is cut', async () => {
  [active, unread] = [0, 1];
  expect(await drain(drained, 50, 0)).toBe(false);
  expect(lines.at(-1)?.[1]).toMatchObject({ ended: 0, cut: 0, unansweredRequests: 1 });
});
