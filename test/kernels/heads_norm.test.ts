import fc from 'fast-check';
import { it } from 'vitest';
import { headsNorm as contract } from '../../src/executor/kernels/index.js';
import { headsNorm } from './reference/heads_norm.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('heads_norm', (target) => {
  it('divides each of the first heads of a row by its root mean square, and leaves the rest as it is', () =>
    target.check(
      fc.tuple(
        fc.tuple(size(5), size(9), fc.constantFrom(1, 8, 16, 32, 64, 80, 256, 512), fc.nat(70)),
        fills(...FINITE),
        fc.constantFrom(1e-5, 1e-6, 1),
        seed,
      ),
      async ([[rows, heads, head_dim, gap], kind, wanted, start]) => {
        const random = new Random(start);
        const eps = Math.fround(wanted);
        const x_stride = heads * head_dim + gap;
        const before = fill(kind, rows * x_stride, random);
        const weight = fill('normal', head_dim, random);
        const sizes = { heads, head_dim, x_stride, eps };
        const { x } = await target.launch(contract, { x: before.slice(), weight, ...sizes }, { rows });
        expectClose(contract, x!, { values: headsNorm(before, weight, sizes) }, { head_dim });
      },
    ));
});
