import fc from 'fast-check';
import { expect, it } from 'vitest';
import { logTicks, plot, roundTicks } from '../../src/cli/bench/plot.js';

it.each([
  [0, 494, [0, 100, 200, 300, 400, 500]],
  [0, 7.15, [0, 2, 4, 6, 8]],
  [0, 0.3, [0, 0.1, 0.2, 0.3]],
  [0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]],
  [-5, 5, [-6, -4, -2, 0, 2, 4, 6]],
])('ticks from %d to %d are round', (least, most, ticks) => {
  expect(roundTicks(least, most)).toEqual(ticks);
});

it('ticks hold any values between them, and are few', () => {
  fc.assert(
    fc.property(fc.double({ min: 1e-6, max: 1e12, noNaN: true }), (most) => {
      const ticks = roundTicks(0, most);
      expect(ticks[0]).toBe(0);
      expect(ticks.at(-1)).toBeGreaterThanOrEqual(most * (1 - 1e-9));
      expect(ticks.length).toBeLessThanOrEqual(8);
      for (const tick of ticks.slice(1)) expect(tick.toExponential()).toMatch(/^\d(\.\d)?e/);
      const powers = logTicks(most, most * 3);
      expect(powers[0]).toBeLessThanOrEqual(most * (1 + 1e-2));
      expect(powers.at(-1)).toBeGreaterThanOrEqual(most * 3 * (1 - 1e-2));
    }),
  );
});

it('draws nothing of what has no place on a logarithmic axis', () => {
  const points = [
    [0, 0],
    [1, Number.NaN],
    [2, 10],
    [3, 1000],
  ] as const;
  const svg = plot('t', [{ title: 'a', xLabel: 'x', logY: true, series: [{ color: 'red', points, name: '<x>' }] }]);
  expect(svg).toMatch(/points="[\d.]+,[\d.]+ [\d.]+,[\d.]+"/);
  expect(svg).not.toMatch(/NaN|Infinity|undefined|<x>/);
});
