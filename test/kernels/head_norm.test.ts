import fc from 'fast-check';
import { it } from 'vitest';
import { headNorm as contractOf } from '../../src/executor/kernels/index.js';
import { headNorm } from './reference/head_norm.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('head_norm', (target) => {
  it('divides each head of q and k by its root mean square, and leaves v as it is', () =>
    target.check(
      fc.tuple(
        fc.tuple(size(5), size(9), size(5), fc.constantFrom(1, 8, 16, 64, 80, 128, 256)),
        fills(...FINITE),
        fc.constantFrom(1e-5, 1e-6, 1),
        seed,
      ),
      async ([[tokens, heads, kvHeads, headDim], kind, wanted, start]) => {
        const random = new Random(start);
        const eps = Math.fround(wanted);
        const sizes = { heads, kv_heads: kvHeads, head_dim: headDim, eps };
        const before = fill(kind, tokens * (heads + 2 * kvHeads) * headDim, random);
        const [query, key] = [fill('normal', headDim, random), fill('normal', headDim, random)];
        const { qkv } = await target.launch<typeof contractOf.arguments>(
          contractOf,
          { qkv: before, query_weight: query, key_weight: key, ...sizes },
          { tokens },
        );
        const values = headNorm(before, query, key, { heads, kvHeads, headDim, eps });
        expectClose(contractOf, qkv as Float32Array, { values }, { head_dim: headDim });
      },
    ));
});
