import fc from 'fast-check';
import { expect, it } from 'vitest';
import { gelu as contract } from '../../src/executor/kernels/index.js';
import { gelu } from './reference/gelu.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('gelu', (target) => {
  it('is gelu of each element', () =>
    target.check(fc.tuple(size(8), size(2400), fills(...FINITE), seed), async ([rows, columns, kind, start]) => {
      const before = fill(kind, rows * columns, new Random(start));
      const { y } = await target.launch(contract, { y: before.slice(), columns }, { rows });
      expectClose(contract, y!, { values: gelu(before) }, { columns });
    }));

  it('keeps a NaN, and makes nothing of what is far below 0', async () => {
    const before = Float32Array.of(Number.NaN, -1e30, -30, 0, 30);
    const { y } = await target.launch(contract, { y: before, columns: before.length }, { rows: 1 });
    expect([...(y as Float32Array)].map((value) => value + 0)).toEqual([Number.NaN, 0, 0, 0, 30]);
  });
});
