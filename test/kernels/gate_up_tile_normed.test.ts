import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  gateUpTileNormed as contractOf,
  matmulTile,
  normParts,
  rmsNormConvert,
  swigluConvert,
} from '../../src/executor/kernels/index.js';
import { gateUpTileNormed } from './reference/gate_up_tile_normed.js';
import { partsOfSquares } from './reference/rms_norm.js';
import { decode, encode, type FloatArray } from './support/half.js';
import { onEachTileTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

onEachTileTarget('gate_up_tile_normed', (target) => {
  it('is a norm, two products and swiglu_convert in one, to the bit', () =>
    target.check(
      fc.tuple(
        fc.constantFrom('f16' as const, 'bf16' as const),
        size(target.simulated ? 40 : 90),
        fc.oneof(size(40), fc.constantFrom(15, 16, 17, 33)),
        fc.tuple(fills('normal', 'zeros', 'ones', 'denormal'), seed),
      ),
      async ([type, ffn, sixteens, [kind, start]]) => {
        const random = new Random(start);
        const eps = Math.fround(1e-6);
        const inner = 16 * sixteens;
        // Small, so that no product is beyond f16's range.
        const weight = encode(
          type,
          fill('normal', 2 * ffn * inner, random).map((value) => value / 16),
        );
        const [x, norm] = [fill(kind, inner, random), fill('normal', inner, random)];
        const { y } = await target.launch(
          contractOf(type),
          { weight, x, norm, parts: partsOfSquares(x), ffn, in: inner, eps },
          { parts: normParts(inner) },
        );
        const normed = await target.launch(rmsNormConvert(type), { x, weight: norm, hidden: inner, eps }, { rows: 1 });
        const product = await target.launch(
          matmulTile(type, 'few'),
          {
            ...{ weight, x: normed.y as FloatArray, y: new Float32Array(2 * ffn), tokens: Int32Array.of(1) },
            ...{ out: 2 * ffn, in: inner, y_stride: 2 * ffn, accumulate: 0 },
          },
          { rows: 1 },
        );
        const apart = await target.launch(
          swigluConvert(type),
          { gate_up: product.y as Float32Array, ffn },
          { rows: 1 },
        );
        expect(y).toEqual(apart.y);
        const expected = gateUpTileNormed(type, decode(type, weight), x, norm, ffn, eps);
        const largest = Math.max(...expected.map(Math.abs));
        for (const [n, value] of decode(type, y as FloatArray).entries())
          expect(Math.abs(value - expected[n]!)).toBeLessThanOrEqual(0.02 * largest + 1e-6);
      },
    ));
});
