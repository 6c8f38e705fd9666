import fc from 'fast-check';
import { expect, it } from 'vitest';
import { reluSquared as contract } from '../../src/executor/kernels/index.js';
import { reluSquared } from './reference/relu_squared.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('relu_squared', (target) => {
  it('squares what is above 0, and nothing else', () =>
    target.check(fc.tuple(size(8), size(2400), fills(...FINITE), seed), async ([rows, columns, kind, start]) => {
      const before = fill(kind, rows * columns, new Random(start));
      const { y } = await target.launch(contract, { y: before.slice(), columns }, { rows });
      expectClose(contract, y!, { values: reluSquared(before) }, { columns });
    }));

  it('keeps a NaN, and makes nothing of what is below 0, however far', async () => {
    const before = Float32Array.of(Number.NaN, Number.NEGATIVE_INFINITY, -1e30, -0, 3);
    const { y } = await target.launch(contract, { y: before, columns: before.length }, { rows: 1 });
    expect([...(y as Float32Array)].map((value) => value + 0)).toEqual([Number.NaN, 0, 0, 0, 9]);
  });
});
