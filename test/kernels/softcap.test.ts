import fc from 'fast-check';
import { it } from 'vitest';
import { softcap as contract } from '../../src/executor/kernels/index.js';
import { softcap } from './reference/softcap.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('softcap', (target) => {
  it('leaves what is small, and lets nothing beyond the cap', () =>
    target.check(
      fc.tuple(size(8), size(700), fc.constantFrom(0.5, 30, 50), fills(...FINITE, 'special'), seed),
      async ([rows, columns, cap, kind, start]) => {
        const before = fill(kind, rows * columns, new Random(start));
        const { x } = await target.launch(contract, { x: before.slice(), columns, cap }, { rows });
        const magnitudes = new Float64Array(before.length).fill(cap);
        expectClose(contract, x!, { values: softcap(before, cap), magnitudes }, {});
      },
    ));
});
