import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  matmulPackedTile as contractOf,
  matmulPacked,
  PACKED_TYPES,
  packedRowBytes,
} from '../../src/executor/kernels/index.js';
import { readBlocks } from './reference/blocks.js';
import { matmulPackedTile } from './reference/matmul_packed_tile.js';
import { randomBlocks } from './support/blocks.js';
import { expectClose, inStrides } from './support/compare.js';
import { activations, packedWidth, repacked } from './support/packed.js';
import { onEachTileTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

const UNTOUCHED = -12_345;

onEachTileTarget('matmul_packed_tile', (target) => {
  it.each(PACKED_TYPES)('%s: is matmul_packed, to the bit, and leaves all else alone', (type) =>
    target.check(
      fc.tuple(
        fc.record({ rows: size(target.simulated ? 70 : 90), out: size(target.simulated ? 70 : 90) }),
        fc.oneof(fc.integer({ min: 1, max: 6 }), fc.constantFrom(17, 33, 66)),
        fc.record({ yGap: fc.nat(5), missing: fc.nat(3), accumulate: fc.boolean() }),
        fc.tuple(fills('normal', 'wide', 'zeros', 'ones', 'denormal'), seed),
      ),
      async ([{ rows, out }, units, { yGap, missing, accumulate }, [kind, start]]) => {
        const random = new Random(start);
        const { fileBlocks, inner } = packedWidth(type, units);
        const [y_stride, tokens] = [out + yGap, Math.max(0, rows - missing)];
        const weight = randomBlocks(type, out * fileBlocks, random);
        const { packed, meaning } = activations(fill(kind, rows * inner, random), inner);
        const before = accumulate ? 3 : UNTOUCHED;
        const y = new Float32Array((rows - 1) * y_stride + out).fill(before);
        const values = {
          ...{ weight: repacked(type, weight, out), x: packed, y, tokens: Int32Array.of(tokens) },
          ...{ out, blocks: inner / 32, y_stride, accumulate: accumulate ? 1 : 0 },
        };
        const dimensions = { rows, row_bytes: packedRowBytes(type, inner) };
        const contract = contractOf(type);
        const result = await target.launch(contract, values, dimensions);
        const expected = matmulPackedTile(readBlocks(type, weight), meaning.subarray(0, tokens * inner), out, inner);
        const written = inStrides(expected, { out, stride: y_stride, length: y.length }, before, accumulate);
        expectClose(contract, result.y!, written, { blocks: values.blocks });

        const rowByRow = await target.launch(matmulPacked(type), values, dimensions);
        expect(result.y).toEqual(rowByRow.y);
      },
      Math.max(3, Math.ceil(target.runs / 8)),
    ),
  );
});
