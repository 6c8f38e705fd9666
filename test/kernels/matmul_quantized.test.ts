import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  BLOCK_TYPES,
  type BlockType,
  blockFormat,
  matmulQuantized as contractOf,
  Q8_BLOCK,
} from '../../src/executor/kernels/index.js';
import { readBlocks } from './reference/blocks.js';
import { matmulQuantized } from './reference/matmul_quantized.js';
import { packRow, quantizeQ8 } from './reference/quantize_q8.js';
import { randomBlocks } from './support/blocks.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

const UNTOUCHED = -12_345;

/** Rows of activations, as they are, as the kernel gets them, and as what it gets stands for. */
function activations(x: Float32Array, inner: number) {
  const rows = Array.from({ length: x.length / inner }, (_, t) => quantizeQ8(x.subarray(t * inner, (t + 1) * inner)));
  const meaning = Float64Array.from(x, (_, i) => {
    const row = rows[Math.floor(i / inner)]!;
    return row.quants[i % inner]! * row.scales[Math.floor((i % inner) / Q8_BLOCK)]!;
  });
  return { packed: new Uint8Array(Buffer.concat(rows.map(packRow))), meaning, rows };
}

onEachTarget('matmul_quantized', (target) => {
  it.each(BLOCK_TYPES)('%s: multiplies what weights and activations stand for, and leaves all else alone', (type) => {
    const { blockElements } = blockFormat(type);
    const most = target.simulated ? 3 : 64;
    return target.check(
      fc.tuple(
        fc.record({ rows: size(target.simulated ? 4 : 20), out: size(target.simulated ? 40 : 70) }),
        fc.integer({ min: 1, max: blockElements === 256 ? 3 : 20 }),
        fc.record({ yGap: fc.nat(5), missing: fc.nat(3) }),
        fc.tuple(fills('normal', 'wide', 'zeros', 'ones', 'denormal'), seed),
      ),
      async ([{ rows, out }, blocks, { yGap, missing }, [kind, start]]) => {
        const random = new Random(start);
        const [inner, y_stride, tokens] = [blocks * blockElements, out + yGap, Math.max(0, rows - missing)];
        const weight = randomBlocks(type, out * blocks, random);
        const x = fill(kind, rows * inner, random);
        const { packed, meaning } = activations(x, inner);
        const y = new Float32Array((rows - 1) * y_stride + out).fill(UNTOUCHED);
        const contract = contractOf(type);
        const result = await target.launch(
          contract,
          { weight, x: packed, y, tokens: Int32Array.of(tokens), out, blocks, y_stride },
          { rows },
        );
        const expected = matmulQuantized(readBlocks(type, weight), meaning.subarray(0, tokens * inner), out, inner);
        const written = new Float64Array(y.length).fill(UNTOUCHED);
        const magnitudes = new Float64Array(y.length);
        for (let t = 0; t < tokens; t++) {
          written.set(expected.values.subarray(t * out, (t + 1) * out), t * y_stride);
          magnitudes.set(expected.magnitudes.subarray(t * out, (t + 1) * out), t * y_stride);
        }
        expectClose(contract, result.y!, { values: written, magnitudes }, { blocks });
      },
      Math.min(target.runs, most),
    );
  });

  it.each(BLOCK_TYPES)(
    '%s: strays from the product with unrounded activations by half a step of each',
    async (type) => {
      const { blockElements } = blockFormat(type);
      const random = new Random(11);
      const [rows, out, blocks] = [5, 33, 2];
      const inner = blocks * blockElements;
      const weight = randomBlocks(type, out * blocks, random);
      const x = fill('normal', rows * inner, random);
      const { packed, rows: quantized } = activations(x, inner);
      const contract = contractOf(type);
      const { y } = await target.launch(
        contract,
        {
          ...{ weight, x: packed, y: new Float32Array(rows * out), tokens: Int32Array.of(rows) },
          ...{ out, blocks, y_stride: out },
        },
        { rows },
      );
      const weights = readBlocks(type, weight);
      const exact = matmulQuantized(weights, x, out, inner);
      for (let i = 0; i < rows * out; i++) {
        // Rounding to a whole number moves an activation by half a step; the f32 division before it by 127 · 2^-23 more.
        let bound = contract.tolerance.bound({ blocks }, exact.magnitudes[i]! * 1.01);
        const n = i % out;
        for (let k = 0; k < inner; k++) {
          const element = weights.products[n * inner + k]! - weights.minimums[n * inner + k]!;
          bound += Math.abs(element) * 0.50002 * quantized[Math.floor(i / out)]!.scales[Math.floor(k / Q8_BLOCK)]!;
        }
        expect(Math.abs((y as Float32Array)[i]! - exact.values[i]!)).toBeLessThanOrEqual(bound);
      }
    },
  );

  it.each<BlockType>(['q8_0', 'q4_1', 'q4_k', 'q6_k', 'q2_k', 'iq4_nl'])(
    '%s: an infinity or NaN in a row of x reaches all its results',
    async (type) => {
      const { blockElements } = blockFormat(type);
      const random = new Random(3);
      const weight = randomBlocks(type, 40, random);
      const x = fill('normal', 6 * blockElements, random);
      x[2 * blockElements + 7] = Number.NaN;
      x[4 * blockElements + 9] = Number.POSITIVE_INFINITY;
      const { y } = await target.launch(
        contractOf(type),
        {
          ...{ weight, x: activations(x, blockElements).packed, y: new Float32Array(6 * 40) },
          ...{ tokens: Int32Array.of(6), out: 40, blocks: 1, y_stride: 40 },
        },
        { rows: 6 },
      );
      const finite = Array.from({ length: 6 }, (_, t) =>
        (y as Float32Array).subarray(t * 40, (t + 1) * 40).every(Number.isFinite),
      );
      expect(finite).toEqual([true, true, false, true, false, true]);
    },
  );
});
