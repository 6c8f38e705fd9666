import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CLASS_NAMES } from '../../tools/kernel-counts.mjs';
import { CARDS, predictLaunch, predictToken } from '../../tools/predict/hardware.mjs';

const none = Object.fromEntries(CLASS_NAMES.map((name) => [name, 0]));
const noClock = { chain: 0, head: 0, drain: 0 };
const clock = fc
  .tuple(fc.integer({ min: 0, max: 5000 }), fc.integer({ min: 1, max: 900 }), fc.integer({ min: 0, max: 900 }))
  .map(([between, head, drain]) => ({ chain: head + between + drain, head, drain }));
const counted = fc
  .tuple(
    clock,
    fc.record({
      blocks: fc.integer({ min: 1, max: 10_000 }),
      resident: fc.integer({ min: 1, max: 16 }),
      perBlock: fc.record(Object.fromEntries(CLASS_NAMES.map((name) => [name, fc.integer({ min: 0, max: 10_000 })]))),
      ldsPasses: fc.integer({ min: 0, max: 10_000 }),
      asked: fc.integer({ min: 100, max: 1000 }),
      touched: fc.integer({ min: 5000, max: 10_000 }),
      shared: fc.integer({ min: 0, max: 5000 }),
    }),
  )
  .map(([clocks, counts]) => ({ ...clocks, ...counts }));

describe.each(Object.keys(CARDS))('a prediction for %s', (target) => {
  const card = CARDS[target]!;
  const idle = { resident: 8, perBlock: none, ldsPasses: 0, ...noClock };

  it('is the bandwidth of memory where nothing else takes time', () => {
    const { longest, by, memoryBytes } = predictLaunch(card, {
      ...{ ...idle, blocks: 1000 },
      ...{ asked: 0, touched: 200_100, shared: 100 },
    });
    expect([by, memoryBytes]).toEqual(['memory', 100 + 1000 * 200_000]);
    expect(longest).toBeCloseTo(memoryBytes / (card.memoryGBs * 1000), 9);
  });

  it('counts the turns that the fullest unit takes where memory is not asked', () => {
    const launch = { ...idle, blocks: card.units + 1, asked: 0, touched: 0, shared: 0 };
    const { longest, by } = predictLaunch(card, { ...launch, perBlock: { ...none, vector: 4000, matrix: 40 } });
    const cycles = (4000 * card.cycles.vector! + 40 * card.cycles.matrix!) / 4;
    expect(by).toBe('vector');
    expect(longest).toBeCloseTo((2 * cycles) / (card.clockGhz * 1000), 9);
  });

  it('is as many blocks one after the other as do not fit beside each other, where they only wait', () => {
    const launch = { ...idle, blocks: card.units * 8 * 3, asked: 0, touched: 0, shared: 0 };
    const waiting = { chain: 20_000, head: 500, drain: 100 };
    expect(predictLaunch(card, { ...launch, ...waiting }).estimate).toBeCloseTo(60, 9);
    expect(predictLaunch(card, { ...launch, ...waiting, blocks: 1 }).estimate).toBeCloseTo(20, 9);
  });

  it('counts passes of LDS, more of them where banks are in conflict', () => {
    const launch = { ...idle, blocks: card.units, asked: 0, touched: 0, shared: 0 };
    const { longest, by } = predictLaunch(card, { ...launch, ldsPasses: 8000 });
    expect(by).toBe('lds');
    expect(longest).toBeCloseTo(8000 / card.cycles.ldsPasses! / (card.clockGhz * 1000), 9);
  });

  it('is never below its longest part, and never less for more', () => {
    fc.assert(
      fc.property(counted, fc.constantFrom(...CLASS_NAMES), (launch, name) => {
        const less = predictLaunch(card, launch);
        const more = { ...launch.perBlock, [name]: launch.perBlock[name]! + 1000 };
        expect(less.estimate).toBeGreaterThan(less.longest);
        expect(predictLaunch(card, { ...launch, perBlock: more }).estimate).toBeGreaterThanOrEqual(less.estimate);
        const longer = { chain: launch.chain + 1000 };
        expect(predictLaunch(card, { ...launch, ...longer }).estimate).toBeGreaterThanOrEqual(less.estimate);
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
