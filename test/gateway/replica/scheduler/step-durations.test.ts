import { expect, it } from 'vitest';
import { StepDurations } from '../../../../src/gateway/replica/scheduler/step-durations.js';

function durations(...steps: readonly (readonly [rows: number, us: number])[]): StepDurations {
  const all = new StepDurations();
  for (const [rows, us] of steps) all.add(rows, us);
  return all;
}

it('knows nothing before a step, and of one size alone nothing of further rows', () => {
  expect(durations().of(1)).toBeUndefined();
  const one = durations([4, 900]);
  expect([1, 4, 100].map((rows) => one.of(rows))).toEqual([900, 900, 900]);
});

it('is between the sizes that were measured, and is extrapolated beyond them', () => {
  const three = durations([1, 1000], [3, 1200], [7, 2000]);
  expect([1, 2, 3, 5, 7].map((rows) => three.of(rows))).toEqual([1000, 1100, 1200, 1600, 2000]);
  expect(three.of(13)).toBeCloseTo(3000, 6);
});

it('takes no step for shorter than one of fewer rows', () => {
  const noisy = durations([1, 1000], [2, 700], [4, 1600]);
  expect([2, 3, 4].map((rows) => noisy.of(rows))).toEqual([1000, 1300, 1600]);
});

it('follows changes, and remembers a size while steps have others', () => {
  const all = durations([64, 23_000]);
  for (let i = 0; i < 400; i++) all.add(128, i < 200 ? 40_000 : 30_000);
  expect(all.of(64)).toBe(23_000);
  expect(all.of(128)).toBeCloseTo(30_000, -1);
});

it('puts sizes of a quarter of a doubling together', () => {
  const all = durations([90, 100], [94, 200]);
  expect(all.of(92)).toBe(150);
});
