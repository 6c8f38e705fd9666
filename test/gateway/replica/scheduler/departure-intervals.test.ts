import { expect, it } from 'vitest';
import { DepartureIntervals } from '../../../../src/gateway/replica/scheduler/departure-intervals.js';

it('is the mean interval between sequences that leave while others wait', () => {
  const departures = new DepartureIntervals();
  expect(departures.intervalMs(0)).toBeUndefined();
  departures.left(3, 1000);
  expect(departures.intervalMs(1500)).toBeUndefined();
  departures.left(2, 5000);
  expect(departures.intervalMs(5000)).toBe(4000);
  departures.left(1, 17_000);
  expect(departures.intervalMs(17_000)).toBe(4000 + (12_000 - 4000) / 8);
  // Longer than the mean: the next one is at least as far from the last.
  expect(departures.intervalMs(37_000)).toBe(20_000);
});

it('does not count the time in which nothing waited', () => {
  const departures = new DepartureIntervals();
  departures.left(1, 0);
  departures.left(0, 2000);
  departures.left(1, 900_000);
  expect(departures.intervalMs(901_000)).toBe(2000);
  departures.left(0, 902_000);
  expect(departures.intervalMs(1e9)).toBe(2000);
});
