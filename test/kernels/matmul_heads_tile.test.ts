import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  BLOCK_TYPES,
  type BlockType,
  blockFormat,
  matmulHeadsTile as contractOf,
} from '../../src/executor/kernels/index.js';
import { readBlocks } from './reference/blocks.js';
import { matmulHeadsTile } from './reference/matmul_heads_tile.js';
import { randomBlocks } from './support/blocks.js';
import { expectClose } from './support/compare.js';
import { decode, encode } from './support/half.js';
import { onEachTileTarget } from './support/targets.js';
import { fill, Random, seed } from './support/values.js';

const UNTOUCHED = -12_345;
const dequantized = (type: BlockType, data: Uint8Array): Float32Array => {
  const { products, minimums } = readBlocks(type, data);
  return Float32Array.from(products, (product, i) => product - minimums[i]!);
};
const rounded = (values: Float32Array): Float32Array => decode('f16', encode('f16', values));

onEachTileTarget('matmul_heads_tile', (target) => {
  it.each(['f16', ...BLOCK_TYPES] as const)('%s: multiplies each head’s rows, with the same bits alone', (type) =>
    target.check(
      fc.tuple(fc.record({ outTiles: fc.integer({ min: 1, max: 4 }), rows: fc.integer({ min: 1, max: 40 }) }), seed),
      async ([{ outTiles, rows }, start]) => {
        const random = new Random(start);
        const [heads, out, inner] = [2, 16 * outTiles, type === 'f16' ? 96 : 256];
        const elements = type === 'f16' ? 1 : blockFormat(type).blockElements;
        const blocks = inner / elements;
        const weight =
          type === 'f16'
            ? encode('f16', fill('normal', heads * out * inner, random))
            : randomBlocks(type, heads * out * blocks, random);
        const values =
          type === 'f16' ? decode('f16', weight as Uint16Array) : rounded(dequantized(type, weight as Uint8Array));
        const x = fill('normal', heads * rows * inner, random);
        const head_stride = out + 2;
        const y_stride = heads * head_stride;
        const contract = contractOf(type);
        const run = async (of: Float32Array, tokens: number) => {
          const y = new Float32Array((tokens - 1) * y_stride + (heads - 1) * head_stride + out).fill(UNTOUCHED);
          const scalars = { out, in: inner, y_stride, head_stride };
          const values = { weight, x: of, y, tokens: Int32Array.of(tokens), ...scalars };
          return (await target.launch(contract, values, { rows: tokens, heads, blocks })).y as Float32Array;
        };
        const result = await run(x, rows);
        const last = Float32Array.from({ length: heads * inner }, (_, i) => {
          return x[(Math.floor(i / inner) * rows + rows - 1) * inner + (i % inner)]!;
        });
        const alone = await run(last, 1);
        for (let head = 0; head < heads; head++) {
          const own = rounded(x.slice(head * rows * inner, (head + 1) * rows * inner));
          const size = out * inner;
          const expected = matmulHeadsTile(values.subarray(head * size, (head + 1) * size), own, out, inner);
          const written = new Float32Array(rows * out);
          for (let row = 0; row < rows; row++) {
            const at = row * y_stride + head * head_stride;
            written.set(result.subarray(at, at + out), row * out);
            if (row < rows - 1 || head < heads - 1) expect(result[at + out]).toBe(UNTOUCHED);
          }
          expectClose(contract, written, expected, { in: inner });
          const at = (rows - 1) * y_stride + head * head_stride;
          expect(alone.slice(head * head_stride, head * head_stride + out)).toEqual(result.slice(at, at + out));
        }
      },
      target.simulated ? 1 : 6,
    ),
  );
});
