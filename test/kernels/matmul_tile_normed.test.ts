import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  biasAdd,
  matmulTileNormed as contractOf,
  matmulTile,
  NORMED_MOST,
  normParts,
  rmsNormConvert,
  type TileType,
} from '../../src/executor/kernels/index.js';
import { matmulTileNormed } from './reference/matmul_tile_normed.js';
import { partsOfSquares } from './reference/rms_norm.js';
import { decode, encode, type FloatArray } from './support/half.js';
import { onEachTileTarget, type Target } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

const eps = Math.fround(1e-5);

/** The product by one launch, and by the two that it takes the place of. */
async function bothWays(
  target: Target,
  type: TileType,
  {
    weight,
    x,
    norm,
    bias,
    out,
  }: Record<'x' | 'norm', Float32Array> & { weight: FloatArray; bias?: Float32Array; out: number },
) {
  const [inner, parts] = [x.length, partsOfSquares(x)];
  const { y } = await target.launch(
    contractOf(type),
    { weight, x, norm, parts, bias: bias ?? norm, out, in: inner, biased: Number(bias !== undefined), eps },
    { parts: normParts(inner), biases: bias?.length ?? 0 },
  );
  const normed = await target.launch(rmsNormConvert(type), { x, weight: norm, hidden: inner, eps }, { rows: 1 });
  const apart = await target.launch(
    matmulTile(type, 'few'),
    {
      ...{ weight, x: normed.y as FloatArray, y: new Float32Array(out), tokens: Int32Array.of(1) },
      ...{ out, in: inner, y_stride: out, accumulate: 0 },
    },
    { rows: 1 },
  );
  const product = apart.y as Float32Array;
  const biased = bias && (await target.launch(biasAdd, { y: product.slice(), bias, out }, { rows: 1 })).y;
  return { y: y as Float32Array, apart: (biased ?? product) as Float32Array };
}

onEachTileTarget('matmul_tile_normed', (target) => {
  it('is rms_norm_convert, matmul_tile and bias_add in one, to the bit', () =>
    target.check(
      fc.tuple(
        fc.constantFrom('f16' as const, 'bf16' as const),
        size(target.simulated ? 40 : 90),
        fc.oneof(size(40), fc.constantFrom(15, 16, 17, 33)),
        fc.tuple(fills('normal', 'zeros', 'ones', 'denormal'), seed),
      ),
      async ([type, out, sixteens, [kind, start]]) => {
        const random = new Random(start);
        const inner = 16 * sixteens;
        const weight = encode(type, fill('normal', out * inner, random));
        const [x, norm] = [fill(kind, inner, random), fill('normal', inner, random)];
        const { y, apart } = await bothWays(target, type, { weight, x, norm, out });
        expect(y).toEqual(apart);
        const biased = await bothWays(target, type, { weight, x, norm, bias: fill('normal', out, random), out });
        expect(biased.y).toEqual(biased.apart);
        // A norm that f32 rounds otherwise is a step off: far below what a wrong element would be.
        const { values, magnitudes } = matmulTileNormed(type, decode(type, weight), x, norm, out, eps);
        for (const [n, value] of y.entries())
          expect(Math.abs(value - values[n]!)).toBeLessThanOrEqual(0.01 * magnitudes[n]! + 1e-6);
      },
    ));

  it('takes the widest row that it says it takes', async () => {
    const random = new Random(3);
    const out = 17;
    const weight = encode('f16', fill('normal', out * NORMED_MOST, random));
    const [x, norm] = [fill('normal', NORMED_MOST, random), fill('normal', NORMED_MOST, random)];
    const { y, apart } = await bothWays(target, 'f16', { weight, x, norm, out });
    expect(y).toEqual(apart);
  });
});
