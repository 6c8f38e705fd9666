import { expect, it } from 'vitest';
import { Lease } from '../../src/executor/serve/lease.js';
import { StallTolerantClock } from '../../src/shared/stall-tolerant-clock.js';

/** A lease of 10 s in a world whose time the test makes. */
function leased() {
  let now = 0;
  const clock = new StallTolerantClock(50, () => now);
  const pass = (ms: number): void => {
    for (let left = ms; left > 0; left -= 50) {
      now += 50;
      clock.tick();
    }
  };
  const stall = (ms: number): void => {
    now += ms;
  };
  return { lease: new Lease(10_000, clock), pass, stall };
}

it('is the first gateway’s as long as it is heard of', () => {
  const { lease, pass } = leased();
  lease.take(1n);
  for (let i = 0; i < 5; i++) {
    pass(9000);
    lease.heard();
    expect(() => lease.take(2n)).toThrow(expect.objectContaining({ reason: 'EXECUTOR_BUSY' }));
  }
  lease.take(1n);
});

it('tells when the holder, should it stay silent, has lost it', () => {
  const { lease, pass } = leased();
  lease.take(1n);
  pass(4000);
  expect(() => lease.take(2n)).toThrow(expect.objectContaining({ metadata: { retry_delay_ms: '6000' } }));
  pass(6000);
  lease.take(2n);
  expect(() => lease.take(1n)).toThrow('another gateway');
});

it('is free as soon as it is given up', () => {
  const { lease } = leased();
  lease.take(1n);
  lease.giveUp();
  lease.take(2n);
});

it('counts no silence while this process could not hear', () => {
  const { lease, stall } = leased();
  lease.take(1n);
  stall(60_000);
  expect(() => lease.take(2n)).toThrow('another gateway');
});
