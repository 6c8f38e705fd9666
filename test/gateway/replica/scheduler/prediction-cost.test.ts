import { describe, expect, it } from 'vitest';
import { PredictionCost } from '../../../../src/gateway/replica/scheduler/prediction-cost.js';
import { StepDurations } from '../../../../src/gateway/replica/scheduler/step-durations.js';

const MOST = 7;

/** A device whose steps take so many microseconds by their rows, and a pass of the block, and a gateway that takes the wait. */
function measured(usOf: (rows: number) => number, passUs: number, waitUs: (rows: number) => number): PredictionCost {
  const durations = new StepDurations();
  for (const rows of [1, 2, 3, 4, 8, 64, 128, 192]) durations.add(rows, usOf(rows));
  const cost = new PredictionCost(durations);
  for (let i = 0; i < 200; i++) {
    const [passes, predicting, rows] = [1 + (i % 3), 1 + 63 * (i % 2), 2 + 126 * (i % 2)];
    cost.observe({ rows, predicting, passes, blockUs: passes * passUs, waitUs: waitUs(rows) });
  }
  return cost;
}

/** Durations like those of a 27B model on a GPU: one row, few and many. */
const large = measured(
  (rows) => (rows === 1 ? 7600 : rows <= 8 ? 8500 : 15_000 + 120 * rows),
  460,
  () => 1000,
);
const among = (running: number, own: number, predicting = running, shared = own) =>
  large.tokensThatPay({ running, predicting, shared, own }, MOST);

describe('draft tokens of the prediction block', () => {
  it('are as many as may be before steps and passes were measured', () => {
    const unmeasured = new PredictionCost(new StepDurations());
    expect(unmeasured.tokensThatPay({ running: 1, predicting: 1, shared: 0, own: 0 }, 5)).toBe(5);
  });

  it.each([0, 0.1, 0.3, 0.5, 0.8, 0.95, 1])('give the most tokens in their time, %d of them right', (acceptance) => {
    const rate = (count: number): number => {
      const tokens = Array.from({ length: count }, (_, i) => acceptance ** (i + 1)).reduce((sum, one) => sum + one, 1);
      return count === 0 ? 1 / 7600 : tokens / (8500 + 460 * count + 1000);
    };
    const counts = [0, 1, 2, 3, 4, 5, 6, 7];
    const best = counts.reduce((one, other) => (rate(other) > rate(one) ? other : one));
    expect(among(1, acceptance)).toBe(best);
  });

  it('pay for one stream from a third on, and the more the more are right', () => {
    const counts = [0.2, 0.4, 0.6, 0.8, 0.95].map((acceptance) => among(1, acceptance));
    expect(counts).toEqual([...counts].sort((a, b) => a - b));
    expect([counts[0], counts[1]! > 0, counts[4]]).toEqual([0, true, 7]);
  });

  it('pay for many streams only where nearly all are right, as rows are no longer free', () => {
    expect([among(64, 0.3), among(64, 0.9) > 0]).toEqual([0, true]);
  });

  it('are fewer for a sequence with wrong ones than for the others, whose passes and wait it shares', () => {
    const counts = [0.05, 0.4, 0.6, 0.9].map((own) => among(8, own, 8, 0.9));
    expect(counts).toEqual([...counts].sort((a, b) => a - b));
    expect(counts[0]).toBe(0);
  });

  it('end with those of all others', () => {
    expect(among(64, 0.95, 64, 0.1)).toBe(0);
  });

  it('are judged by what the gateway took with as many sequences, whatever it took last', () => {
    const usOf = (rows: number): number => 15_000 + 120 * rows;
    const [idle, busy] = [() => 1000, (rows: number) => 90 * rows].map((waitUs) => measured(usOf, 460, waitUs));
    const counts = [idle, busy].map((cost) =>
      [1, 64].map((running) => {
        for (let i = 0; i < 100; i++) cost!.observe({ rows: 2, predicting: 1, passes: 1, blockUs: 460, waitUs: 200 });
        return cost!.tokensThatPay({ running, predicting: running, shared: 0.8, own: 0.8 }, 1);
      }),
    );
    expect(counts).toEqual([
      [1, 1],
      [1, 0],
    ]);
  });

  it('do not pay for one of many, whose block and wait all others pay for', () => {
    expect([among(64, 0.9, 1), among(4, 0.9, 1) > 0]).toEqual([0, true]);
  });
});
