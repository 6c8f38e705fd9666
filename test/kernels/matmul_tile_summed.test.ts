import fc from 'fast-check';
import { expect, it } from 'vitest';
import { matmulTileSummed as contractOf, matmulTile, normParts } from '../../src/executor/kernels/index.js';
import { matmulTileSummed } from './reference/matmul_tile_summed.js';
import { partsOfSquares } from './reference/rms_norm.js';
import { expectClose } from './support/compare.js';
import { decode, encode } from './support/half.js';
import { onEachTileTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

onEachTileTarget('matmul_tile_summed', (target) => {
  it('adds what matmul_tile adds, to the bit, and leaves the sums of squares', () =>
    target.check(
      fc.tuple(
        fc.constantFrom('f16' as const, 'bf16' as const),
        size(target.simulated ? 40 : 90),
        size(75),
        fc.tuple(fills('normal', 'zeros', 'ones', 'denormal'), seed),
      ),
      async ([type, out, eighths, [kind, start]]) => {
        const random = new Random(start);
        const inner = 8 * eighths;
        const weight = encode(type, fill('normal', out * inner, random));
        const x = encode(type, fill(kind, inner, random));
        const before = fill('normal', out, random);
        const summed = await target.launch(
          contractOf(type),
          { weight, x, y: before.slice(), out, in: inner },
          { parts: normParts(out) },
        );
        const apart = await target.launch(
          matmulTile(type, 'few'),
          { weight, x, y: before.slice(), tokens: Int32Array.of(1), out, in: inner, y_stride: out, accumulate: 1 },
          { rows: 1 },
        );
        expect(summed.y).toEqual(apart.y);
        expect(summed.parts).toEqual(partsOfSquares(apart.y as Float32Array));
        const expected = matmulTileSummed(decode(type, weight), decode(type, x), out, inner, before);
        expectClose(matmulTile(type, 'few'), summed.y!, expected, { in: inner });
      },
    ));
});
