import { expect, it } from 'vitest';
import { MASK_TIME, MaskTime } from '../../../src/gateway/matching/mask-time.js';

it('a client whose masks are slow may use its burst, and then its part of each second', () => {
  let now = 0;
  const time = new MaskTime(() => now);
  let allowed = 0;
  for (; now < 100_000; now += 250) if (!time.charge('mallory', 250)) allowed += 1;
  expect(allowed * (250 - MASK_TIME.freeMs)).toBeLessThanOrEqual(
    MASK_TIME.burstMs + (now / 1000) * MASK_TIME.perSecondMs,
  );
});

it('ordinary masks are never counted, however many', () => {
  const time = new MaskTime(() => 0);
  for (let i = 0; i < 100_000; i++) expect(time.charge('alice', MASK_TIME.freeMs)).toBe(false);
  expect(time.charge('alice', MASK_TIME.freeMs + MASK_TIME.burstMs)).toBe(false);
  expect(time.charge('alice', MASK_TIME.freeMs + 1)).toBe(true);
  expect(time.charge('bob', MASK_TIME.freeMs + 1)).toBe(false);
});
