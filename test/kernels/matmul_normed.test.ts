import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  matmulNormed as contractOf,
  matmulPacked,
  NORMED_MOST,
  normParts,
  PACKED_TYPES,
  packedRowBytes,
  rmsNormQuantize,
} from '../../src/executor/kernels/index.js';
import { readBlocks } from './reference/blocks.js';
import { matmulNormed } from './reference/matmul_normed.js';
import { partsOfSquares } from './reference/rms_norm.js';
import { randomBlocks } from './support/blocks.js';
import { packedWidth, repacked } from './support/packed.js';
import { onEachTarget, type Target } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

const eps = Math.fround(1e-5);

/** The product by one launch, and by the two that it takes the place of. */
async function bothWays(
  target: Target,
  type: (typeof PACKED_TYPES)[number],
  { weight, x, norm, out }: { weight: Uint8Array; x: Float32Array; norm: Float32Array; out: number },
) {
  const [inner, parts] = [x.length, partsOfSquares(x)];
  const [blocks, row_bytes] = [inner / 32, packedRowBytes(type, inner)];
  const { y } = await target.launch(
    contractOf(type),
    { weight, x, norm, parts, out, blocks, eps },
    { row_bytes, in: inner, parts: normParts(inner) },
  );
  const normed = await target.launch(rmsNormQuantize, { x, weight: norm, hidden: inner, eps }, { rows: 1, blocks });
  const apart = await target.launch(
    matmulPacked(type, 'one'),
    {
      ...{ weight, x: normed.y as Uint8Array, y: new Float32Array(out), tokens: Int32Array.of(1) },
      ...{ out, blocks, y_stride: out, accumulate: 0 },
    },
    { rows: 1, row_bytes },
  );
  return { y: y as Float32Array, apart: apart.y as Float32Array };
}

onEachTarget('matmul_normed', (target) => {
  it.each(PACKED_TYPES)('%s: is rms_norm_quantize and matmul_packed in one, to the bit', (type) =>
    target.check(
      fc.tuple(
        size(target.simulated ? 18 : 34),
        fc.oneof(fc.integer({ min: 1, max: 20 }), fc.constantFrom(31, 32, 33, 65)),
        fc.tuple(fills('normal', 'wide', 'zeros', 'ones', 'denormal'), seed),
      ),
      async ([out, units, [kind, start]]) => {
        const random = new Random(start);
        const { fileBlocks, inner } = packedWidth(type, units);
        const file = randomBlocks(type, out * fileBlocks, random);
        const [x, norm] = [fill(kind, inner, random), fill('normal', inner, random)];
        const { y, apart } = await bothWays(target, type, { weight: repacked(type, file, out), x, norm, out });
        expect(y).toEqual(apart);
        if (kind !== 'normal') return;
        // A quant that f32 rounds otherwise is a step off: far below what a wrong block would be.
        const { values, magnitudes } = matmulNormed(readBlocks(type, file), x, norm, out, eps);
        for (const [n, value] of y.entries())
          expect(Math.abs(value - values[n]!)).toBeLessThanOrEqual(0.01 * magnitudes[n]! + 1e-6);
      },
      Math.ceil(target.runs / 8),
    ),
  );

  it('takes the widest row that it says it takes', async () => {
    const random = new Random(3);
    const out = 17;
    const weight = repacked('q8_0', randomBlocks('q8_0', (out * NORMED_MOST) / 32, random), out);
    const [x, norm] = [fill('normal', NORMED_MOST, random), fill('normal', NORMED_MOST, random)];
    const { y, apart } = await bothWays(target, 'q8_0', { weight, x, norm, out });
    expect(y).toEqual(apart);
  });
});
