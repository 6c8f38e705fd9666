import fc from 'fast-check';
import { expect, it } from 'vitest';
import { GrammarCache } from '../../../src/gateway/matching/grammar-cache.js';
import { runs, seed } from '../../support/run-size.js';

const grammarOf = (allocatedBytes: number, epoch = 1) => ({ allocatedBytes, epoch, close: () => undefined });
const MOST = { bytes: 100_000, grammars: 8 };

it('keeps within its bounds and the newest grammar, however many are added', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.constantFrom('alice', 'bob', 'carol'), fc.nat(150_000)), { maxLength: 200 }),
      (added) => {
        const cache = new GrammarCache(MOST);
        const closed: number[] = [];
        added.forEach(([client, allocatedBytes], i) => {
          const grammar = { allocatedBytes, epoch: 1 + Math.floor(i / 50), close: () => closed.push(i) };
          cache.add(String(i), client, grammar);
          expect(cache.get(String(i))).toBe(grammar);
          expect(cache.bytes <= MOST.bytes || cache.size === 1).toBe(true);
          expect(cache.size).toBeLessThanOrEqual(MOST.grammars);
          expect(cache.size + cache.evictions).toBe(i + 1);
          // Nothing waits for a collection of garbage, which does not see what native objects hold.
          expect(closed).toHaveLength(cache.evictions);
        });
      },
    ),
    { numRuns: runs(200), seed: seed(1) },
  );
});

it('one client’s many grammars do not evict another’s', () => {
  const cache = new GrammarCache(MOST);
  cache.add('small', 'alice', grammarOf(10_000));
  for (let i = 0; i < 50; i++) cache.add(String(i), 'mallory', grammarOf(30_000));
  expect(cache.get('small')).toBeDefined();
  expect(cache.get('0')).toBeUndefined();
  expect(cache.get('49')).toBeDefined();
});

it('evicts what was used longest ago first', () => {
  const cache = new GrammarCache({ bytes: 100_000, grammars: 2 });
  const add = (form: string) => cache.add(form, 'a', grammarOf(1));
  add('x');
  add('y');
  cache.get('x');
  add('z');
  expect(cache.get('y')).toBeUndefined();
  expect(cache.get('x')).toBeDefined();
});

it('grammars of an epoch before the last one are not kept: they would keep its automata', () => {
  const cache = new GrammarCache(MOST);
  for (const epoch of [1, 1, 2, 3]) cache.add(`${epoch} ${cache.size}`, 'alice', grammarOf(10, epoch));
  expect([cache.size, cache.evictions]).toEqual([2, 2]);
});
