import fc from 'fast-check';
import { it } from 'vitest';
import { splitQueryGates } from '../../src/executor/kernels/index.js';
import { splitQueryGates as reference } from './reference/split_query_gates.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { fill, Random, seed, size } from './support/values.js';

onEachTarget('split_query_gates', (target) => {
  it('takes q, k and v together, and each head’s gate from behind it', () =>
    target.check(
      fc.tuple(size(6), size(5), size(3), fc.constantFrom(1, 16, 64, 256), seed),
      async ([rows, heads, kvHeads, headDim, start]) => {
        const width = 2 * heads + 2 * kvHeads;
        const gated = fill('normal', rows * width * headDim, new Random(start));
        const { qkv, gate } = await target.launch<typeof splitQueryGates.arguments>(
          splitQueryGates,
          { gated, heads, kv_heads: kvHeads, head_dim: headDim },
          { rows },
        );
        const expected = reference(gated, { heads, kvHeads, headDim });
        expectClose(splitQueryGates, qkv!, { values: expected.qkv }, {});
        expectClose(splitQueryGates, gate!, { values: expected.gate }, {});
      },
    ));
});
