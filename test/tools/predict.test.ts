import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CLASS_NAMES } from '../../tools/kernel-counts.mjs';
import { CARDS, predictLaunch, predictToken } from '../../tools/predict/hardware.mjs';

const none = Object.fromEntries(CLASS_NAMES.map((name) => [name, 0]));
const counted = fc.record({
  blocks: fc.integer({ min: 1, max: 10_000 }),
  perBlock: fc.record(Object.fromEntries(CLASS_NAMES.map((name) => [name, fc.integer({ min: 0, max: 10_000 })]))),
  asked: fc.integer({ min: 100, max: 1000 }),
  lines: fc.integer({ min: 50, max: 100 }),
  shared: fc.integer({ min: 0, max: 50 }),
});

describe.each(Object.keys(CARDS))('a prediction for %s', (target) => {
  const card = CARDS[target]!;
  const wave = target.startsWith('gfx9') ? 64 : 32;

  it('is the bandwidth of memory where nothing else takes time', () => {
    const { longest, by, memoryBytes } = predictLaunch(card, {
      ...{ blocks: 1000, wave, perBlock: none },
      ...{ asked: 0, lines: 2010, shared: 10 },
    });
    expect([by, memoryBytes]).toEqual(['memory', 128 * (10 + 1000 * 2000)]);
    expect(longest).toBeCloseTo(memoryBytes / (card.memoryGBs * 1000), 9);
  });

  it('counts the turns that the fullest unit takes where memory is not asked', () => {
    const launch = { blocks: card.units + 1, wave, asked: 0, lines: 0, shared: 0 };
    const { longest, by } = predictLaunch(card, { ...launch, perBlock: { ...none, vector: 4000, matrix: 40 } });
    const cycles = (4000 * card.cycles.vector! + 40 * card.cycles.matrix!) / 4;
    expect(by).toBe('vector');
    expect(longest).toBeCloseTo((2 * cycles) / (card.clockGhz * 1000), 9);
  });

  it('is never below its longest part, and never less for more', () => {
    fc.assert(
      fc.property(counted, fc.constantFrom(...CLASS_NAMES), (launch, name) => {
        const less = predictLaunch(card, { ...launch, wave });
        const more = { ...launch.perBlock, [name]: launch.perBlock[name]! + 1000 };
        expect(less.estimate).toBeGreaterThan(less.longest);
        expect(predictLaunch(card, { ...launch, wave, perBlock: more }).estimate).toBeGreaterThanOrEqual(less.estimate);
      }),
    );
  });
});

it('adds up a token’s launches, each a node', () => {
  expect(
    predictToken(
      [
        { estimate: 2, times: 3 },
        { estimate: 10, times: 1 },
      ],
      4,
    ),
  ).toBe(3 * 6 + 14);
});
