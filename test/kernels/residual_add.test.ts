import fc from 'fast-check';
import { it } from 'vitest';
import { residualAdd as contract } from '../../src/executor/kernels/index.js';
import { residualAdd } from './reference/residual_add.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('residual_add', (target) => {
  it('adds y to x', () =>
    target.check(
      fc.tuple(size(8), size(1200), fills(...FINITE, 'special'), seed),
      async ([rows, hidden, kind, start]) => {
        const random = new Random(start);
        const x = fill(kind, rows * hidden, random);
        const y = fill(kind, rows * hidden, random);
        const result = await target.launch(contract, { x, y, hidden }, { rows });
        expectClose(contract, result.x!, { values: residualAdd(x, y) }, { hidden });
      },
    ));
});
