import fc from 'fast-check';
import { expect, it } from 'vitest';
import { xielu as contract } from '../../src/executor/kernels/index.js';
import { xielu } from './reference/xielu.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

const factor = fc.constantFrom(0.1, 0.55, 1.2, 3);

onEachTarget('xielu', (target) => {
  it('grows with the square above 0, and falls below', () =>
    target.check(
      fc.tuple(
        fc.tuple(size(8), size(2400)),
        fills(...FINITE),
        factor,
        factor,
        fc.constantFrom(0, 0.5),
        fc.constantFrom(-1e-6, -0.5),
        seed,
      ),
      async ([[rows, columns], kind, n, p, b, e, start]) => {
        const before = fill(kind, rows * columns, new Random(start));
        const [alpha_n, alpha_p, beta, eps] = [n, p, b, e].map(Math.fround) as [number, number, number, number];
        const values = { y: before.slice(), columns, alpha_n, alpha_p, beta, eps };
        const { y } = await target.launch(contract, values, { rows });
        expectClose(contract, y!, { values: xielu(before, alpha_n, alpha_p, beta, eps) }, { columns });
      },
    ));

  it('keeps a NaN', async () => {
    const values = { y: Float32Array.of(Number.NaN, 2), columns: 2, alpha_n: 1, alpha_p: 1, beta: 0.5, eps: -1e-6 };
    const { y } = await target.launch(contract, values, { rows: 1 });
    expect([...(y as Float32Array)]).toEqual([Number.NaN, 5]);
  });
});
