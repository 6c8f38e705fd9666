import fc from 'fast-check';
import { expect, it } from 'vitest';
import { rmsNormResidual as contract, residualAdd, rmsNorm } from '../../src/executor/kernels/index.js';
import { rmsNormResidual } from './reference/rms_norm_residual.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('rms_norm_residual', (target) => {
  it('adds to the residual stream and norms it, as residual_add and rms_norm do', () =>
    target.check(
      fc.tuple(size(8), size(3000), fills(...FINITE, 'special'), seed),
      async ([rows, hidden, kind, start]) => {
        const random = new Random(start);
        const eps = Math.fround(1e-5);
        const [x, delta] = [fill(kind, rows * hidden, random), fill(kind, rows * hidden, random)];
        const weight = fill('normal', hidden, random);
        const result = await target.launch(contract, { x, delta, weight, hidden, eps }, { rows });
        const expected = rmsNormResidual(x, delta, weight, hidden, eps);
        expectClose(residualAdd, result.x!, { values: expected.x }, {});
        expectClose(contract, result.y!, { values: expected.y }, { hidden });

        const added = await target.launch(residualAdd, { x, y: delta, hidden }, { rows });
        expect(result.x).toEqual(added.x);
        const normed = await target.launch(rmsNorm, { x: added.x as Float32Array, weight, hidden, eps }, { rows });
        expectClose(contract, result.y!, { values: Float64Array.from(normed.y!) }, { hidden });
      },
    ));
});
