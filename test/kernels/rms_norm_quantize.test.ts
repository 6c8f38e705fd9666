import fc from 'fast-check';
import { expect, it } from 'vitest';
import { rmsNormQuantize as contract, quantizeQ8, rmsNorm as rmsNormF32 } from '../../src/executor/kernels/index.js';
import { rmsNormQuantize } from './reference/rms_norm_quantize.js';
import { expectQuantized } from './support/packed.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('rms_norm_quantize', (target) => {
  it('quantizes the normalized row, with the bits of rms_norm and quantize_q8', () =>
    target.check(
      fc.tuple(fc.tuple(size(8), size(90)), fills('normal', 'wide', 'zeros', 'ones', 'denormal'), seed),
      async ([[rows, blocks], kind, start]) => {
        const random = new Random(start);
        const [hidden, eps] = [32 * blocks, Math.fround(1e-5)];
        const x = fill(kind, rows * hidden, random);
        const weight = fill('normal', hidden, random);
        const { y } = await target.launch(contract, { x, weight, hidden, eps }, { rows, blocks });
        const expected = rmsNormQuantize(x, weight, hidden, eps);
        const off = (i: number) => rmsNormF32.tolerance.bound({ hidden }, Math.abs(expected[i]!));
        expectQuantized(y as Uint8Array, expected, hidden, off);

        const normed = await target.launch(rmsNormF32, { x, weight, hidden, eps }, { rows });
        const unfused = await target.launch(quantizeQ8, { x: normed.y as Float32Array, in: hidden }, { rows, blocks });
        expect(y).toEqual(unfused.y);
      },
    ));
});
