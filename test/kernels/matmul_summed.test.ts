import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  matmulSummed as contractOf,
  matmulPacked,
  normParts,
  PACKED_TYPES,
  packedRowBytes,
} from '../../src/executor/kernels/index.js';
import { readBlocks } from './reference/blocks.js';
import { matmulSummed } from './reference/matmul_summed.js';
import { partsOfSquares } from './reference/rms_norm.js';
import { randomBlocks } from './support/blocks.js';
import { expectClose } from './support/compare.js';
import { activations, packedWidth, repacked } from './support/packed.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('matmul_summed', (target) => {
  it.each(PACKED_TYPES)('%s: adds what matmul_packed adds, to the bit, and leaves the sums of squares', (type) =>
    target.check(
      fc.tuple(
        size(target.simulated ? 40 : 90),
        fc.oneof(fc.integer({ min: 1, max: 20 }), fc.constantFrom(31, 32, 33, 65)),
        fc.tuple(fills('normal', 'wide', 'zeros', 'ones', 'denormal'), seed),
      ),
      async ([out, units, [kind, start]]) => {
        const random = new Random(start);
        const { fileBlocks, inner } = packedWidth(type, units);
        const file = randomBlocks(type, out * fileBlocks, random);
        const weight = repacked(type, file, out);
        const { packed: x, meaning } = activations(fill(kind, inner, random), inner);
        const before = fill('normal', out, random);
        const [blocks, row_bytes] = [inner / 32, packedRowBytes(type, inner)];
        const summed = await target.launch(
          contractOf(type),
          { weight, x, y: before.slice(), out, blocks },
          { row_bytes, parts: normParts(out) },
        );
        const apart = await target.launch(
          matmulPacked(type, 'one'),
          { weight, x, y: before.slice(), tokens: Int32Array.of(1), out, blocks, y_stride: out, accumulate: 1 },
          { rows: 1, row_bytes },
        );
        expect(summed.y).toEqual(apart.y);
        expect(summed.parts).toEqual(partsOfSquares(apart.y as Float32Array));
        const { values, magnitudes } = matmulSummed(readBlocks(type, file), meaning, out, inner);
        expectClose(
          matmulPacked(type, 'one'),
          summed.y!,
          {
            values: values.map((value, n) => value + before[n]!),
            magnitudes: magnitudes!.map((value, n) => value + Math.abs(before[n]!)),
          },
          { blocks },
        );
      },
      Math.ceil(target.runs / 8),
    ),
  );
});
