import { expect } from 'vitest';
import type { KernelContract } from '../../../src/executor/device/contract.js';
import { ATTENTION_SPLIT } from '../../../src/executor/kernels/index.js';
import { expectClose } from './compare.js';
import type { PagedStep } from './paged-cases.js';

/** Number that a test fills parts with beforehand. */
export const UNTOUCHED = -12_345;

/**
 * Compares the parts of a split context, `[rows, heads, splits, 2 + head size]`, the first of them that of the split in which a
 * row's window begins, with `expected`; those past a row's position must be untouched.
 */
export function expectParts(
  contract: KernelContract,
  parts: Float32Array,
  step: PagedStep,
  splits: number,
  expected: (row: number, head: number, range: readonly [number, number]) => Parameters<typeof expectClose>[2],
): void {
  const { rows, heads } = step;
  const width = step.cache.headDim + 2;
  rows.forEach(({ position }, row) => {
    const begin = step.begin(position);
    const firstSplit = Math.floor(begin / ATTENTION_SPLIT);
    for (let place = row * heads * splits; place < (row + 1) * heads * splits; place++) {
      const [head, first] = [Math.floor(place / splits) % heads, (firstSplit + (place % splits)) * ATTENTION_SPLIT];
      const part = parts.subarray(place * width, (place + 1) * width);
      if (first > position) {
        expect(part.every((value) => value === UNTOUCHED)).toBe(true);
        continue;
      }
      const values = part.subarray(2).map((value) => value / part[1]!);
      const range = [Math.max(first, begin), Math.min(position + 1, first + ATTENTION_SPLIT)] as const;
      expectClose(contract, values, expected(row, head, range), {});
    }
  });
}
