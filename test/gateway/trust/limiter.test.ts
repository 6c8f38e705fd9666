import fc from 'fast-check';
import { beforeEach, expect, it } from 'vitest';
import { Limiter } from '../../../src/gateway/trust/limiter.js';
import { type PrincipalLimits, readLimits } from '../../../src/gateway/trust/limits.js';
import type { RocmForgeError } from '../../../src/shared/errors.js';
import { runs, seed } from '../../support/run-size.js';

const SECOND = 1000;
let limits: PrincipalLimits;
let now: number;
let refused: string[];
let limiter: Limiter;
beforeEach(() => {
  limits = {};
  now = 5_000_000;
  refused = [];
  const observer = { rateLimited: (limit: string) => refused.push(limit) };
  limiter = new Limiter(
    () => ({ of: (principal) => (principal === 'free' ? {} : limits) }),
    observer,
    () => now,
  );
});

/** Time that a refused one is to wait, in milliseconds; undefined when it is not refused. */
function waitOf(attempt: () => unknown): number | undefined {
  try {
    attempt();
    return undefined;
  } catch (error) {
    const { reason, metadata } = error as RocmForgeError;
    expect(reason).toBe('RATE_LIMITED');
    expect(metadata.limit).toBe(refused.at(-1));
    return Number(metadata.retry_delay_ms);
  }
}
const call = (principal = 'alice') => waitOf(() => limiter.admit(principal, false));
const generation = (principal = 'alice') => waitOf(() => limiter.admit(principal, true));

it('takes a minute’s requests at once, then one whenever one is due, as it has said', () => {
  limits = { requests_per_minute: 30 };
  for (let i = 0; i < 30; i++) expect(call()).toBeUndefined();
  expect(call()).toBe(2 * SECOND);
  now += 2 * SECOND - 1;
  expect(call()).toBe(1);
  now += 1;
  expect(call()).toBeUndefined();
  expect(refused).toEqual(['requests_per_minute', 'requests_per_minute']);
});

it('does not hold a principal to what another does', () => {
  limits = { requests_per_minute: 1 };
  expect([call('alice'), call('bob'), call('free'), call('free')]).toEqual([
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
  expect(call('bob')).toBe(60 * SECOND);
});

it('reserves what a generation may take, and gives back what it did not', () => {
  limits = { tokens_per_minute: 600 };
  const usage = limiter.begin('alice', 0, 500);
  expect(waitOf(() => limiter.begin('alice', 0, 150))).toBe(5 * SECOND);
  limiter.begin('alice', 0, 100).end();
  usage.spend(50);
  usage.spend(50);
  usage.end();
  usage.end();
  expect(waitOf(() => limiter.begin('alice', 0, 501))).toBe(SECOND / 10);
  limiter.begin('alice', 0, 500);
  expect(refused).toEqual(['tokens_per_minute', 'tokens_per_minute']);
});

it('a generation larger than the bucket reserves all of it, and pauses when that is used', () => {
  limits = { tokens_per_minute: 600 };
  const usage = limiter.begin('alice', 0, 100_000);
  expect(usage.spend(600)).toBe(0);
  expect(usage.spend(25)).toBe(2.5 * SECOND);
  expect(generation()).toBe(2.5 * SECOND);
  expect(call()).toBeUndefined();
  now += SECOND;
  expect(usage.waitMs()).toBe(1.5 * SECOND);
  now += 1.5 * SECOND;
  expect(usage.waitMs()).toBe(0);
  expect(generation()).toBeUndefined();
});

it('a generation whose next step would not be covered pauses before it', () => {
  limits = { tokens_per_minute: 600 };
  const usage = limiter.begin('alice', 0, 100_000, 3);
  expect(usage.spend(597)).toBe(0);
  expect(usage.spend(1)).toBe(SECOND / 10);
  // The step in flight.
  expect(usage.spend(3)).toBe(0.4 * SECOND);
  now += 0.4 * SECOND;
  expect(usage.waitMs()).toBe(0);
});

it('a generation that reserved all it may take never pauses, and its end needs no whole step', () => {
  limits = { tokens_per_minute: 600 };
  const whole = limiter.begin('alice', 0, 600, 50);
  for (let i = 0; i < 600; i++) expect(whole.spend(1)).toBe(0);
});

it('a step larger than the bucket waits until that is full, not for ever', () => {
  limits = { tokens_per_minute: 60 };
  const usage = limiter.begin('alice', 0, 10_000, 128);
  expect(usage.spend(60)).toBe(60 * SECOND);
  now += 60 * SECOND;
  expect(usage.waitMs()).toBe(0);
});

it('names the limit that is reached, its value, and when to try again', () => {
  limits = { streams: 2 };
  for (let i = 0; i < 2; i++) limiter.begin('alice', 1, 1);
  expect(() => limiter.begin('alice', 1, 1)).toThrow(/^concurrent stream limit \(2\) reached; try again in \d+ ms$/);
  limits = { tokens_per_minute: 600 };
  limiter.begin('bob', 600, 0);
  expect(() => limiter.begin('bob', 1, 0)).toThrow(/^token limit per minute \(600\) reached; try again in \d+ ms$/);
});

it('refuses a prompt of more than a minute’s tokens, which no wait would admit', () => {
  limits = { tokens_per_minute: 600 };
  expect(() => limiter.begin('alice', 601, 1)).toThrow(/601 tokens, more than the token limit per minute \(600\)/);
  limiter.begin('alice', 600, 1);
});

it('never lets more through than a minute’s tokens, those since, and a step of each generation', () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.record({ possible: fc.integer({ min: 1, max: 4000 }), used: fc.double({ min: 0, max: 1, noNaN: true }) }),
        {
          minLength: 1,
          maxLength: 30,
        },
      ),
      fc.integer({ min: 1, max: 900 }),
      (generations, most) => {
        limits = { tokens_per_minute: most };
        const start = now;
        const own = `jwt:${most} ${start}`;
        let tokens = 0;
        let waiting = generations.flatMap(({ possible, used }) => {
          try {
            return [{ usage: limiter.begin(own, 0, possible), left: Math.floor(possible * used) }];
          } catch {
            return [];
          }
        });
        const begun = waiting.length;
        for (let turn = 0; turn < 2000 && waiting.length > 0; turn++) {
          now += 20;
          waiting = waiting.filter((each) => {
            if (each.left === 0) each.usage.end();
            else if (each.usage.waitMs() === 0) {
              each.left -= 1;
              tokens += 1;
              each.usage.spend(1);
            }
            return each.left > 0;
          });
          expect(tokens).toBeLessThanOrEqual(most + ((now - start) / 60_000) * most + begun);
        }
        now += 10 * 60 * SECOND;
      },
    ),
    { numRuns: runs(100), seed: seed(2) },
  );
});

it('lets as many generations run at once as the limit says, each counted until its end, once', () => {
  limits = { streams: 2 };
  const first = limiter.begin('alice', 0, 1);
  limiter.begin('alice', 0, 1);
  expect(waitOf(() => limiter.begin('alice', 0, 1))).toBeGreaterThan(0);
  expect(generation()).toBeGreaterThan(0);
  expect(call()).toBeUndefined();
  first.end();
  first.end();
  expect(waitOf(() => limiter.begin('alice', 0, 1))).toBeUndefined();
  expect(waitOf(() => limiter.begin('alice', 0, 1))).toBeGreaterThan(0);
  expect(refused).toEqual(['streams', 'streams', 'streams']);
});

it('holds everybody to limits as they are now, generations under way included', () => {
  const usage = limiter.begin('alice', 0, 1);
  limits = { tokens_per_minute: 60, streams: 1 };
  expect(generation()).toBeGreaterThan(0);
  usage.end();
  // One was granted.
  usage.spend(71);
  expect(generation()).toBe(10 * SECOND);
  limits = {};
  expect(generation()).toBeUndefined();
});

it('remembers as many principals as it has room for, and never forgets one that runs', () => {
  limits = { streams: 1 };
  limiter.begin('alice', 0, 1);
  for (let i = 0; i < 40_000; i++) limiter.admit(`peer ${i}`, false);
  expect(waitOf(() => limiter.begin('alice', 0, 1))).toBeGreaterThan(0);
});

const FILE = {
  default: { requests_per_minute: 60 },
  principals: { 'token:alice': { streams: 4, queue_share: 0.5 }, 'jwt:bob': {} },
};
it('reads limits of those who are named, which have none of the others’', () => {
  const read = readLimits('limits', JSON.stringify(FILE));
  expect(['token:alice', 'jwt:bob', 'jwt:eve'].map((principal) => read.of(principal))).toEqual([
    { streams: 4, queue_share: 0.5 },
    {},
    { requests_per_minute: 60 },
  ]);
});

it.each([
  ['no JSON', '{', /is not JSON/],
  ['a list', '[]', /the file is \[\] and no object/],
  ['an unknown key', '{"defaults": {}}', /the file has the unknown key "defaults"; allowed: default, principals/],
  ['an unknown limit', '{"default": {"rpm": 3}}', /default has the unknown key "rpm"; allowed: requests_per_minute/],
  ['zero', '{"default": {"streams": 0}}', /streams of default is 0; it must be a whole number/],
  ['a fraction', '{"default": {"streams": 1.5}}', /streams of default is 1.5/],
  ['a string', '{"default": {"streams": "4"}}', /streams of default is "4"/],
  [
    'a share above 1',
    '{"principals": {"token:a": {"queue_share": 2}}}',
    /queue_share of token:a is 2; it must be a number/,
  ],
  ['a name that is not a principal', '{"principals": {"alice": {}}}', /"alice" is not a principal; use token:NAME/],
])('refuses %s, by its place', (_what, text, message) => {
  expect(() => readLimits('limits', text)).toThrow(message);
});
