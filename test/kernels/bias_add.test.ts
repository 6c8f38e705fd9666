import fc from 'fast-check';
import { it } from 'vitest';
import { biasAdd as contract } from '../../src/executor/kernels/index.js';
import { biasAdd } from './reference/bias_add.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('bias_add', (target) => {
  it('adds the bias to every row', () =>
    target.check(fc.tuple(size(8), size(1200), fills(...FINITE, 'special'), seed), async ([rows, out, kind, start]) => {
      const random = new Random(start);
      const y = fill(kind, rows * out, random);
      const bias = fill(kind, out, random);
      const result = await target.launch(contract, { y, bias, out }, { rows });
      expectClose(contract, result.y!, { values: biasAdd(y, bias) }, {});
    }));
});
