import fc from 'fast-check';
import { expect, it } from 'vitest';
import { GrammarCache } from '../../../src/gateway/matching/grammar-cache.js';
import { runs, seed } from '../../support/run-size.js';

const LIMITS = { cachedBytes: 1000, cachedGrammars: 8 };

/** An engine whose heap grows only where what was freed does not suffice. */
class Engine {
  heap = 0;
  used = 0;

  compile(bytes: number) {
    this.used += bytes;
    const grown = Math.max(0, this.used - this.heap);
    this.heap += grown;
    const dispose = () => {
      this.used -= bytes;
    };
    return { grammar: { dispose }, grown };
  }
}

it('keeps the heap within its bound and the largest grammar, however many are compiled', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 900 }),
      fc.array(fc.constantFrom('alice', 'bob', 'carol'), { minLength: 1, maxLength: 200 }),
      (bytes, clients) => {
        const engine = new Engine();
        const cache = new GrammarCache(LIMITS);
        clients.forEach((client, i) => {
          const { grammar, grown } = engine.compile(bytes);
          cache.add(String(i), client, grammar, grown);
          expect(cache.bytes).toBe(engine.used);
          expect(cache.bytes <= LIMITS.cachedBytes || cache.size === 1).toBe(true);
          expect(cache.size).toBeLessThanOrEqual(LIMITS.cachedGrammars);
        });
        expect(engine.heap).toBeLessThanOrEqual(LIMITS.cachedBytes + bytes);
      },
    ),
    { numRuns: runs(200), seed: seed(1) },
  );
});

it('one client’s many grammars do not evict another’s', () => {
  const engine = new Engine();
  const cache = new GrammarCache(LIMITS);
  const add = (form: string, client: string, bytes: number) => {
    const { grammar, grown } = engine.compile(bytes);
    return cache.add(form, client, grammar, grown);
  };
  add('small', 'alice', 100);
  for (let i = 0; i < 50; i++) add(String(i), 'mallory', 300);
  expect(cache.get('small')).toBeDefined();
  expect(cache.get('0')).toBeUndefined();
  expect(cache.get('49')).toBeDefined();
});

it('evicts what was used longest ago first', () => {
  const cache = new GrammarCache({ cachedBytes: 1000, cachedGrammars: 2 });
  const add = (form: string) => cache.add(form, 'a', { dispose: () => undefined }, 1);
  add('x');
  add('y');
  cache.get('x');
  expect(add('z')).toEqual(['y']);
});
