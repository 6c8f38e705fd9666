import fc from 'fast-check';
import { it } from 'vitest';
import { smallGemm as contract } from '../../src/executor/kernels/index.js';
import { smallGemm } from './reference/small_gemm.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('small_gemm', (target) => {
  it('multiplies row-major matrices', () =>
    target.check(
      fc.tuple(fc.record({ m: size(40), n: size(40), k: size(80) }), fills(...FINITE, 'special'), seed),
      async ([{ m, n, k }, kind, start]) => {
        const random = new Random(start);
        const a = fill(kind, m * k, random);
        const b = fill(kind, k * n, random);
        const { c } = await target.launch(contract, { a, b, m, n, k });
        expectClose(contract, c!, smallGemm(a, b, n, k), { k });
      },
    ));
});
