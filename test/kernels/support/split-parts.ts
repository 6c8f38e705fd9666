import { expect } from 'vitest';
import type { KernelContract } from '../../../src/executor/device/contract.js';
import { ATTENTION_SPLIT } from '../../../src/executor/kernels/index.js';
import { expectClose } from './compare.js';
import type { PagedStep } from './paged-cases.js';

/** Number that a test fills parts with beforehand. */
export const UNTOUCHED = -12_345;

/** Holds the parts of a split context, `[rows, heads, splits, 2 + head size]`, to `expected`; those past a row's position must be untouched. */
export function expectParts(
  contract: KernelContract,
  parts: Float32Array,
  { rows, heads, cache: { headDim } }: PagedStep,
  splits: number,
  expected: (row: number, head: number, range: readonly [number, number]) => Parameters<typeof expectClose>[2],
): void {
  const width = headDim + 2;
  rows.forEach(({ position }, row) => {
    for (let place = row * heads * splits; place < (row + 1) * heads * splits; place++) {
      const [head, first] = [Math.floor(place / splits) % heads, (place % splits) * ATTENTION_SPLIT];
      const part = parts.subarray(place * width, (place + 1) * width);
      if (first > position) {
        expect(part.every((value) => value === UNTOUCHED)).toBe(true);
        continue;
      }
      const values = part.subarray(2).map((value) => value / part[1]!);
      const range = [first, Math.min(position + 1, first + ATTENTION_SPLIT)] as const;
      expectClose(contract, values, expected(row, head, range), {});
    }
  });
}
