import fc from 'fast-check';
import { it } from 'vitest';
import { swigluClamped as contract } from '../../src/executor/kernels/index.js';
import { swigluClamped } from './reference/swiglu_clamped.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('swiglu_clamped', (target) => {
  it('gates what is clamped', () =>
    target.check(
      fc.tuple(size(8), size(700), fc.constantFrom(2, 7), fills(...FINITE, 'special'), seed),
      async ([rows, ffn, limit, kind, start]) => {
        const gate_up = fill(kind, rows * 2 * ffn, new Random(start));
        const { y } = await target.launch(contract, { gate_up, ffn, alpha: 1.702, limit }, { rows });
        expectClose(contract, y!, { values: swigluClamped(gate_up, ffn, 1.702, limit) }, {});
      },
    ));
});
