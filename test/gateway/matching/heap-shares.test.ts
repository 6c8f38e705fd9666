import fc from 'fast-check';
import { expect, it } from 'vitest';
import { HeapShares } from '../../../src/gateway/matching/heap-shares.js';

it('the answer whose masks took the time has the bytes', () => {
  const shares = new HeapShares<string>();
  shares.spend('quick', 1);
  shares.spend('slow', 9);
  shares.grow(100);
  shares.spend('quick', 5);
  shares.grow(10);
  expect(shares.bytes).toBe(110);
  expect(shares.largest).toBe('slow');
});

it('who stays is not blamed for what the heap grew by for those who left', () => {
  const shares = new HeapShares<string>();
  shares.spend('hostile', 90);
  shares.spend('victim', 1);
  shares.grow(100);
  shares.spend('hostile', 90);
  shares.leave('hostile');
  shares.spend('victim', 1);
  shares.grow(100);
  shares.spend(undefined, 90);
  shares.spend('victim', 1);
  shares.grow(100);
  expect(shares.largest).toBeUndefined();
});

it('of answers that are all there still, one is the largest', () => {
  const events = fc.array(fc.tuple(fc.integer({ min: 0, max: 9 }), fc.integer({ min: 1, max: 50 }), fc.nat(100)), {
    minLength: 1,
  });
  fc.assert(
    fc.property(events, (spent) => {
      const shares = new HeapShares<number>();
      for (const [answer, ms, bytes] of spent) {
        shares.spend(answer, ms);
        shares.grow(bytes);
      }
      expect(shares.bytes).toBe(spent.reduce((sum, [, , bytes]) => sum + bytes, 0));
      expect(shares.largest === undefined).toBe(shares.bytes === 0);
    }),
  );
});
