import fc from 'fast-check';
import { it } from 'vitest';
import { headLayerNorm as contractOf } from '../../src/executor/kernels/index.js';
import { headLayerNorm } from './reference/head_layer_norm.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('head_layer_norm', (target) => {
  it('subtracts the mean of each head of q and k, divides by its deviation, and leaves v as it is', () =>
    target.check(
      fc.tuple(
        fc.tuple(size(5), size(9), size(5), fc.constantFrom(1, 8, 16, 64, 80, 128, 256)),
        fills(...FINITE),
        fc.constantFrom(0, 1, 100),
        fc.constantFrom(1e-5, 1e-6, 1),
        seed,
      ),
      async ([[tokens, heads, kvHeads, headDim], kind, mean, wanted, start]) => {
        const random = new Random(start);
        const eps = Math.fround(wanted);
        const sizes = { heads, kv_heads: kvHeads, head_dim: headDim, eps };
        const before = fill(kind, tokens * (heads + 2 * kvHeads) * headDim, random).map((value) => value + mean);
        const [query, key] = [heads, kvHeads].map((count) => fill('normal', count * headDim, random)) as [
          Float32Array,
          Float32Array,
        ];
        const { qkv } = await target.launch<typeof contractOf.arguments>(
          contractOf,
          { qkv: before, query_weight: query, key_weight: key, ...sizes },
          { tokens },
        );
        const reference = headLayerNorm(before, query, key, { heads, kvHeads, headDim, eps });
        expectClose(contractOf, qkv as Float32Array, reference, { head_dim: headDim });
      },
    ));
});
