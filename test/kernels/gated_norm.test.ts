import fc from 'fast-check';
import { it } from 'vitest';
import { gatedNorm as contract } from '../../src/executor/kernels/index.js';
import { gatedNorm } from './reference/gated_norm.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('gated_norm', (target) => {
  it('divides each head by its root mean square, and multiplies it by its gates', () =>
    target.check(
      fc.tuple(fc.tuple(size(6), size(9), fc.constantFrom(1, 8, 32, 80, 128), size(9)), fills(...FINITE), seed),
      async ([[rows, heads, dim, apart], kind, start]) => {
        const random = new Random(start);
        const eps = Math.fround(1e-6);
        const stride = heads * dim + apart - 1;
        const [before, gate] = [fill(kind, rows * heads * dim, random), fill('normal', rows * stride, random)];
        const weight = fill('normal', dim, random);
        const { x } = await target.launch<typeof contract.arguments>(
          contract,
          { x: before.slice(), gate, weight, heads, dim, gate_stride: stride, eps },
          { rows },
        );
        const values = gatedNorm(before, gate, weight, { heads, dim, stride, eps });
        expectClose(contract, x!, { values }, { dim });
      },
    ));
});
