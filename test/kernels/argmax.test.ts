import fc from 'fast-check';
import { expect, it } from 'vitest';
import { argmax as contract } from '../../src/executor/kernels/index.js';
import { argmax } from './reference/argmax.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('argmax', (target) => {
  it('finds the first of the largest', () =>
    target.check(
      fc.tuple(size(8), size(3000), fills('normal', 'zeros', 'ones', 'denormal', 'infinite', 'special', 'wide'), seed),
      async ([rows, columns, kind, start]) => {
        // Rounded, so that equal elements are common.
        const x = fill(kind, rows * columns, new Random(start)).map((v) => (kind === 'normal' ? Math.round(v) : v));
        const { index } = await target.launch(contract, { x, columns }, { rows });
        expect([...index!]).toEqual(argmax(x, columns));
      },
    ));

  it('gives 0 for a row of -inf or NaN', async () => {
    const minus = Number.NEGATIVE_INFINITY;
    const x = Float32Array.of(minus, minus, minus, Number.NaN, Number.NaN, Number.NaN);
    const { index } = await target.launch(contract, { x, columns: 3 }, { rows: 2 });
    expect([...index!]).toEqual([0, 0]);
  });
});
