import fc from 'fast-check';
import { it } from 'vitest';
import { qkNorm as contractOf } from '../../src/executor/kernels/index.js';
import { qkNorm } from './reference/qk_norm.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('qk_norm', (target) => {
  it('divides q and k each by the root mean square of all their heads, and leaves v as it is', () =>
    target.check(
      fc.tuple(
        fc.tuple(size(5), size(5), size(9), fc.constantFrom(1, 8, 16, 64, 80, 128)),
        fills(...FINITE),
        fc.constantFrom(1e-5, 1e-6, 1),
        seed,
      ),
      async ([[tokens, kvHeads, more, headDim], kind, wanted, start]) => {
        const random = new Random(start);
        const [eps, heads] = [Math.fround(wanted), kvHeads + more];
        const sizes = { heads, kv_heads: kvHeads, head_dim: headDim, eps };
        const before = fill(kind, tokens * (heads + 2 * kvHeads) * headDim, random);
        const [query, key] = [fill('normal', heads * headDim, random), fill('normal', kvHeads * headDim, random)];
        const { qkv } = await target.launch<typeof contractOf.arguments>(
          contractOf,
          { qkv: before.slice(), query_weight: query, key_weight: key, ...sizes },
          { tokens },
        );
        const values = qkNorm(before, query, key, { heads, kvHeads, headDim, eps });
        expectClose(contractOf, qkv as Float32Array, { values }, { heads, head_dim: headDim });
      },
    ));
});
