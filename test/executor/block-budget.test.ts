import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BlockBudget, workingWindowBlocks } from '../../src/executor/load/block-budget.js';
import { type LoadOptions, limitsFor } from '../../src/executor/load/load-options.js';
import { kvBlockBytes } from '../../src/executor/model/kv-cache.js';
import { blocksFor } from '../../src/executor/model/slot-layout.js';
import { runs, scaled, seed } from '../support/run-size.js';

const shape = fc.record({
  layers: fc.integer({ min: 1, max: 8 }),
  windowed: fc.nat(8),
  window: fc.integer({ min: 1, max: 600 }),
});
const limit = fc.record({
  maxContext: fc.integer({ min: 1, max: 5000 }),
  maxSequences: fc.integer({ min: 1, max: 40 }),
  maxStepTokens: fc.integer({ min: 40, max: 600 }),
});

function budgetOf({ layers, windowed, window }: { layers: number; windowed: number; window: number }, asked: object) {
  const shape = { kvHeads: 1, headDim: 16 };
  const count = window < (asked as LoadOptions).maxContext ? Math.min(windowed, layers) : 0;
  const options = { path: '', kvCacheType: 'f16', kvMemoryBytes: 0, fingerprint: '', ...asked } as LoadOptions;
  const windows = count === 0 ? undefined : { window, layers: new Set(Array.from({ length: count }, (_, i) => i)) };
  const bytesOf = (of: number) => kvBlockBytes(Array(of).fill(shape), 'f16');
  const budget = new BlockBudget(
    options,
    new Map(Array.from({ length: layers }, (_, layer) => [layer, shape])),
    windows,
  );
  return { budget, limits: limitsFor(options, 1), full: bytesOf(layers - count), windowed: bytesOf(count), count };
}

describe('KV blocks of both kinds', () => {
  it('fit what they are given, and are enough for one sequence, or it is refused', () => {
    let [granted, refused, withWindows] = [0, 0, 0];
    fc.assert(
      fc.property(shape, limit, fc.double({ min: 0.5, max: 60, noNaN: true }), (of, asked, times) => {
        const { budget, limits, full, windowed, count } = budgetOf(of, asked);
        const least = budget.leastBytes(limits);
        const bytes = Math.floor(least * times);
        if (bytes < least) {
          refused += 1;
          expect(() => budget.within(bytes, limits)).toThrow('less than one sequence of');
          return;
        }
        granted += 1;
        const counts = budget.within(bytes, limits);
        const context = blocksFor(limits.maxContext);
        const windowBlocks = counts.windowed?.blocks ?? 0;
        expect(counts.kvBlocks * full + windowBlocks * windowed).toBeLessThanOrEqual(bytes);
        expect(counts.kvBlocks - 1).toBeGreaterThanOrEqual(context);
        expect(counts.kvBlocks - 1).toBeLessThanOrEqual(limits.maxSequences * context);
        expect(counts.windowed !== undefined).toBe(count > 0);
        if (counts.windowed === undefined) return;
        withWindows += 1;
        // One step at its largest and all that its first row sees, wherever in a block it begins.
        const seen = Math.min(context, Math.ceil((of.window + limits.maxStepTokens - 2) / 16) + 1);
        expect(windowBlocks - 1).toBeGreaterThanOrEqual(seen);
        expect(windowBlocks - 1).toBeLessThanOrEqual(limits.maxSequences * context);
        // A pool with room for the expected blocks of every slot has it for every slot's window.
        if (!budget.holds(limits, bytes)) return;
        expect(windowBlocks - 1).toBeGreaterThanOrEqual(workingWindowBlocks(of.window, limits, limits.maxSequences));
        expect(counts.kvBlocks - 1).toBeGreaterThanOrEqual(
          limits.maxSequences * blocksFor(Math.min(2048, limits.maxContext)),
        );
      }),
      { numRuns: runs(3000), seed: seed(20261122) },
    );
    expect(Math.min(granted - withWindows, refused, withWindows)).toBeGreaterThan(scaled(30));
  });

  it('are no fewer of more memory', () => {
    fc.assert(
      fc.property(shape, limit, fc.double({ min: 1, max: 60, noNaN: true }), fc.nat(1000), (of, asked, times, more) => {
        const { budget, limits, full, windowed } = budgetOf(of, asked);
        const bytes = Math.floor(budget.leastBytes(limits) * times);
        const sizeOf = (given: number) => {
          const counts = budget.within(given, limits);
          return counts.kvBlocks * full + (counts.windowed?.blocks ?? 0) * windowed;
        };
        // A block of either kind may be left over.
        expect(sizeOf(bytes + more * (full + windowed))).toBeGreaterThan(sizeOf(bytes) - full - windowed);
      }),
      { numRuns: runs(1000), seed: seed(20261122) },
    );
  });

  it('are as many as can be used where no memory is named', () => {
    const { budget, limits } = budgetOf(
      { layers: 6, windowed: 5, window: 512 },
      { maxContext: 8192, maxSequences: 4, maxStepTokens: 512 },
    );
    // Each slot 34 for its window, twice, and 64 for the rows of two steps.
    expect(budget.wanted(limits)).toEqual({
      kvBlocks: 1 + 4 * 512,
      windowed: { window: 512, blocks: 1 + 2 * 4 * 34 + 64 },
    });
  });
});
