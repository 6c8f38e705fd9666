import fc from 'fast-check';
import { it } from 'vitest';
import { scaleQueries as contract } from '../../src/executor/kernels/index.js';
import { scaleQueries } from './reference/scale_queries.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('scale_queries', (target) => {
  it('multiplies the queries of each row by the factor of its position, and leaves k and v', () =>
    target.check(
      fc.tuple(size(9), size(6), size(4), fc.constantFrom(1, 16, 64, 80, 300), fills(...FINITE), seed),
      async ([tokens, heads, kvHeads, headDim, kind, start]) => {
        const random = new Random(start);
        const width = (heads + 2 * kvHeads) * headDim;
        const before = fill(kind, tokens * width, random);
        const factors = fill('normal', 50, random);
        const row_position = Int32Array.from({ length: tokens }, () => random.below(50));
        const { qkv } = await target.launch(
          contract,
          { qkv: before.slice(), factors, row_position, heads, kv_heads: kvHeads, head_dim: headDim },
          { tokens, max_position: 50 },
        );
        const values = scaleQueries(before, factors, row_position, width, heads * headDim);
        expectClose(contract, qkv as Float32Array, { values }, {});
      },
    ));
});
