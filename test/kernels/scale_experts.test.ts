import fc from 'fast-check';
import { it } from 'vitest';
import { scaleExperts as contract } from '../../src/executor/kernels/index.js';
import { scaleExperts } from './reference/scale_experts.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('scale_experts', (target) => {
  it('multiplies each weight by the scale of its expert', () =>
    target.check(
      fc.tuple(size(9), size(32), size(128), fills(...FINITE), seed),
      async ([rows, used, experts, kind, start]) => {
        const random = new Random(start);
        const before = fill(kind, rows * used, random);
        const scale = fill('normal', experts, random);
        const ids = Int32Array.from({ length: rows * used }, () => random.below(experts));
        const { weights } = await target.launch(
          contract,
          { weights: before.slice(), ids, scale, used },
          { rows, experts },
        );
        expectClose(contract, weights!, { values: scaleExperts(before, ids, scale) }, {});
      },
    ));
});
