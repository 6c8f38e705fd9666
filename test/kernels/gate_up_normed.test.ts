import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  gateUpNormed as contractOf,
  matmulPacked,
  normParts,
  PACKED_TYPES,
  packedRowBytes,
  Q8_BLOCK,
  rmsNormQuantize,
  swigluQuantize,
} from '../../src/executor/kernels/index.js';
import { readBlocks } from './reference/blocks.js';
import { gateUpNormed } from './reference/gate_up_normed.js';
import { partsOfSquares } from './reference/rms_norm.js';
import { smallBlocks } from './support/blocks.js';
import { dequantizeRows, packedWidth, repacked } from './support/packed.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed } from './support/values.js';

onEachTarget('gate_up_normed', (target) => {
  it.each(PACKED_TYPES)('%s: is a norm, two products and swiglu_quantize in one, to the bit', (type) =>
    target.check(
      fc.tuple(
        fc.integer({ min: 1, max: 3 }),
        fc.oneof(fc.integer({ min: 1, max: 6 }), fc.constantFrom(17, 33)),
        fc.tuple(fills('normal', 'zeros', 'ones', 'denormal'), seed),
      ),
      async ([ffn_blocks, units, [kind, start]]) => {
        const random = new Random(start);
        const eps = Math.fround(1e-6);
        const { fileBlocks, inner } = packedWidth(type, units);
        const [ffn, blocks, row_bytes] = [ffn_blocks * Q8_BLOCK, inner / Q8_BLOCK, packedRowBytes(type, inner)];
        const files = [0, 1].map(() => smallBlocks(type, ffn * fileBlocks, random));
        const [gate, up] = files.map((file) => repacked(type, file, ffn)) as [Uint8Array, Uint8Array];
        const [x, norm] = [fill(kind, inner, random), fill('normal', inner, random)];
        const { y } = await target.launch(
          contractOf(type),
          { gate, up, x, norm, parts: partsOfSquares(x), ffn, blocks, eps },
          { row_bytes, ffn_blocks, in: inner, parts: normParts(inner) },
        );

        const normed = await target.launch(
          rmsNormQuantize,
          { x, weight: norm, hidden: inner, eps },
          { rows: 1, blocks },
        );
        const gate_up = new Float32Array(2 * ffn);
        for (const [i, weight] of [gate, up].entries()) {
          const product = await target.launch(
            matmulPacked(type, 'one'),
            {
              ...{ weight, x: normed.y as Uint8Array, y: new Float32Array(ffn), tokens: Int32Array.of(1) },
              ...{ out: ffn, blocks, y_stride: ffn, accumulate: 0 },
            },
            { rows: 1, row_bytes },
          );
          gate_up.set(product.y as Float32Array, i * ffn);
        }
        const apart = await target.launch(swigluQuantize, { gate_up, ffn }, { rows: 1, blocks: ffn_blocks });
        expect(y).toEqual(apart.y);
        if (kind !== 'normal') return;
        const expected = gateUpNormed(
          ...([readBlocks(type, files[0]!), readBlocks(type, files[1]!), x, norm, ffn, eps] as const),
        );
        const { values, scales } = dequantizeRows(y as Uint8Array, ffn);
        const largest = Math.max(...expected.map(Math.abs));
        for (const [n, value] of values.entries())
          expect(Math.abs(value - expected[n]!)).toBeLessThanOrEqual(scales[n]! + 0.02 * largest);
      },
      Math.ceil(target.runs / 8),
    ),
  );
});
