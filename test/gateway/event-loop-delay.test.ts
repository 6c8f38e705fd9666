import { describe, expect, it } from 'vitest';
import { delaysOf, EventLoopDelay } from '../../src/gateway/event-loop-delay.js';
import { Metrics } from '../../src/gateway/metrics.js';

/** Values of the native monitor for turns of these durations, with bucket bounds of 1, 10 and 100 ms. */
function monitored(seconds: number, turns: readonly number[]): Float64Array {
  const sum = (power: number) => turns.reduce((total, turn) => total + turn ** power, 0);
  const buckets = [0.001, 0.01, 0.1].map((bound, i, bounds) => {
    const inside = turns.filter((turn) => turn >= bound && turn < (bounds[i + 1] ?? Number.POSITIVE_INFINITY));
    return [bound, inside.length, inside.reduce((total, turn) => total + turn, 0)];
  });
  return Float64Array.from([seconds, Math.max(0, ...turns), sum(2), sum(3), ...buckets.flat()]);
}

function blockFor(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}
/** Resolves in the next turn of the loop. A timer would not do: one that is due by then runs in the same turn. */
const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('the delay of the event loop', () => {
  it('is zero while the loop waits', () => {
    expect(delaysOf(monitored(10, []))).toEqual({ max: 0, mean: 0, stddev: 0, p50: 0, p90: 0, p99: 0 });
  });

  it('of one long turn is its length at most, and half of it on average while it lasts', () => {
    const delays = delaysOf(monitored(1, [0.5]));
    expect(delays.max).toBe(0.5);
    // An event is due in the turn with probability 0.5 and waits 0.25 s on average then.
    expect(delays.mean).toBeCloseTo(0.125, 12);
    // The mean of the square is 0.5 * 0.25 / 3.
    expect(delays.stddev).toBeCloseTo(Math.sqrt(0.125 / 3 - 0.125 ** 2), 12);
  });

  it('has percentiles over time, not over turns', () => {
    // Ten of 1,000 turns take 0.1 s, all others 1 ms: events due in 0.9 of 2 s wait for more than 10 ms.
    const turns = [...new Array<number>(990).fill(0.001), ...new Array<number>(10).fill(0.1)];
    const delays = delaysOf(monitored(2, turns));
    expect(delays.p50).toBe(0.001);
    expect(delays.p90).toBe(0.1);
  });

  it('shows a turn that took long, once', async () => {
    const delay = new EventLoopDelay();
    await turn();
    delay.read();
    blockFor(40);
    await turn();
    await turn();
    const blocked = delay.read();
    expect(blocked.max).toBeGreaterThanOrEqual(0.04);
    expect(blocked.p99).toBeLessThanOrEqual(blocked.max);
    // A machine that is busy makes turns of its own long: not every one.
    await expect.poll(() => delay.read().max).toBeLessThan(blocked.max);
  });

  it('is scraped under the names of prom-client, all values of one period', async () => {
    const read = () => ({ max: 0.2, mean: 0.01, stddev: 0.02, p50: 0.001, p90: 0.05, p99: 0.1 });
    const text = await new Metrics([], { read }).registry.metrics();
    const lag = [...text.matchAll(/^nodejs_eventloop_lag(\w*)_seconds (\S+)$/gm)].map(([, name, value]) => [
      name,
      value,
    ]);
    expect(Object.fromEntries(lag)).toEqual({
      _max: '0.2',
      _mean: '0.01',
      _stddev: '0.02',
      _p50: '0.001',
      _p90: '0.05',
      _p99: '0.1',
    });
  });
});
