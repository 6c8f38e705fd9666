import fc from 'fast-check';
import { expect, it } from 'vitest';
import { normAdd as contract, normParts, residualAdd, rmsNorm } from '../../src/executor/kernels/index.js';
import { normAdd } from './reference/norm_add.js';
import { partsOfSquares, rmsNorm as reference } from './reference/rms_norm.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('norm_add', (target) => {
  it('adds the normalized row, with the bits of rms_norm and residual_add, and leaves the sums of squares', () =>
    target.check(
      fc.tuple(size(8), size(900), fills('normal', 'wide', 'zeros', 'ones', 'denormal'), seed),
      async ([rows, fours, kind, start]) => {
        const random = new Random(start);
        const [hidden, eps] = [4 * fours, Math.fround(1e-5)];
        const [x, y] = [fill(kind, rows * hidden, random), fill(kind, rows * hidden, random)];
        const weight = fill('normal', hidden, random);
        const dims = { rows, parts: normParts(hidden) };
        const added = await target.launch(contract, { x: x.slice(), y, weight, hidden, eps }, dims);

        const normed = await target.launch(rmsNorm, { x: y, weight, hidden, eps }, { rows });
        const own = normed.y as Float32Array;
        const apart = await target.launch(residualAdd, { x: x.slice(), y: own, hidden }, { rows });
        expect(added.x).toEqual(apart.x);
        const [sums, norms] = [normAdd(x, y, weight, hidden, eps), reference(y, weight, hidden, eps)];
        const off = sums.map(
          (sum, i) => rmsNorm.tolerance.bound({ hidden }, Math.abs(norms[i]!)) + 2 ** -24 * Math.abs(sum),
        );
        expect((added.x as Float32Array).every((value, i) => Math.abs(value - sums[i]!) <= off[i]! + 2 ** -149)).toBe(
          true,
        );
        expect(added.parts).toEqual(partsOfSquares((apart.x as Float32Array).subarray(0, hidden)));
      },
    ));
});
