import fc from 'fast-check';
import { it } from 'vitest';
import { biasAddExperts as contract } from '../../src/executor/kernels/index.js';
import { biasAddExperts } from './reference/bias_add_experts.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('bias_add_experts', (target) => {
  it('adds to each place the bias of its expert, of rows that count', () =>
    target.check(
      fc.tuple(
        fc.record({ rows: size(8), out: size(600), used: fc.integer({ min: 1, max: 4 }), gap: fc.nat(3) }),
        fc.nat(3),
        fills(...FINITE),
        seed,
      ),
      async ([{ rows, out, used, gap }, missing, kind, start]) => {
        const random = new Random(start);
        const [pairs, experts, tokens, stride] = [rows * used, used + 3, Math.max(0, rows - missing), out + gap];
        const y = fill(kind, pairs * stride, random);
        const bias = fill(kind, experts * out, random);
        const ids = Int32Array.from({ length: pairs }, () => random.below(experts));
        const place_of = Int32Array.from({ length: pairs }, (_, pair) => pairs - 1 - pair);
        const shared = { bias, ids, place_of, tokens: Int32Array.of(tokens), out, y_stride: stride, used };
        const result = await target.launch(
          contract,
          { y: y.slice(), ...shared },
          { rows, pairs, places: pairs, experts },
        );
        const counted = { ids: ids.subarray(0, tokens * used), places: place_of, out, stride };
        expectClose(contract, result.y!, { values: biasAddExperts(y, bias, counted) }, {});
      },
    ));
});
