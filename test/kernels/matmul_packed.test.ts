import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  matmulPacked as contractOf,
  PACKED_TYPES,
  type PackedType,
  packedRowBytes,
} from '../../src/executor/kernels/index.js';
import { readBlocks } from './reference/blocks.js';
import { matmulPacked } from './reference/matmul_packed.js';
import { randomBlocks } from './support/blocks.js';
import { expectClose, inStrides } from './support/compare.js';
import { activations, packedWidth, repacked } from './support/packed.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

const UNTOUCHED = -12_345;

onEachTarget('matmul_packed', (target) => {
  it.each(PACKED_TYPES)('%s: multiplies what weights and activations stand for, and leaves all else alone', (type) =>
    target.check(
      fc.tuple(
        fc.record({ rows: size(target.simulated ? 9 : 12), out: size(target.simulated ? 18 : 34) }),
        fc.oneof(fc.integer({ min: 1, max: 20 }), fc.constantFrom(31, 32, 33, 65)),
        fc.record({
          ...{ yGap: fc.nat(5), missing: fc.nat(3), accumulate: fc.boolean() },
          form: fc.constantFrom('one' as const, 'several' as const),
        }),
        fc.tuple(fills('normal', 'wide', 'zeros', 'ones', 'denormal'), seed),
      ),
      async ([{ rows, out }, units, { yGap, missing, accumulate, form }, [kind, start]]) => {
        const random = new Random(start);
        const { fileBlocks, inner } = packedWidth(type, units);
        const [y_stride, tokens] = [out + yGap, Math.max(0, rows - missing)];
        const weight = randomBlocks(type, out * fileBlocks, random);
        const { packed, meaning } = activations(fill(kind, rows * inner, random), inner);
        const before = accumulate ? 3 : UNTOUCHED;
        const y = new Float32Array((rows - 1) * y_stride + out).fill(before);
        const contract = contractOf(type, form);
        const blocks = inner / 32;
        const result = await target.launch(
          contract,
          {
            ...{ weight: repacked(type, weight, out), x: packed, y, tokens: Int32Array.of(tokens) },
            ...{ out, blocks, y_stride, accumulate: accumulate ? 1 : 0 },
          },
          { rows, row_bytes: packedRowBytes(type, inner) },
        );
        const expected = matmulPacked(readBlocks(type, weight), meaning.subarray(0, tokens * inner), out, inner);
        const written = inStrides(expected, { out, stride: y_stride, length: y.length }, before, accumulate);
        expectClose(contract, result.y!, written, { blocks });
      },
      Math.ceil(target.runs / 4),
    ),
  );

  it.each<PackedType>(['q8_0', 'q4_1', 'q5_0', 'q4_k', 'q6_k', 'q2_k', 'q3_k', 'iq4_xs'])(
    '%s: gives a row the same bits alone and among others',
    async (type) => {
      const random = new Random(7);
      const { fileBlocks, inner } = packedWidth(type, 36);
      const [rows, out, blocks] = [target.simulated ? 11 : 40, 18, inner / 32];
      const weight = repacked(type, randomBlocks(type, out * fileBlocks, random), out);
      const { packed } = activations(fill('normal', rows * inner, random), inner);
      const rowBytes = packed.length / rows;
      const run = async (first: number, count: number, form: 'one' | 'several' = 'several') => {
        const { y } = await target.launch(
          contractOf(type, form),
          {
            ...{
              weight,
              x: packed.slice(first * rowBytes, (first + count) * rowBytes),
              y: new Float32Array(count * out),
            },
            ...{ tokens: Int32Array.of(count), out, blocks, y_stride: out, accumulate: 0 },
          },
          { rows: count, row_bytes: weight.length / out },
        );
        return y as Float32Array;
      };
      const together = await run(0, rows);
      for (const [first, count] of [
        [0, 1],
        [3, 2],
        [5, 3],
        [4, 5],
        [rows - 1, 1],
      ] as const) {
        expect(await run(first, count, count === 1 ? 'one' : 'several')).toEqual(
          together.slice(first * out, (first + count) * out),
        );
      }
    },
  );

  it.each<PackedType>(['q8_0', 'q4_1', 'q4_k', 'q6_k', 'q2_k', 'iq4_nl'])(
    '%s: an infinity or NaN in a row of x reaches all its results',
    async (type) => {
      const random = new Random(3);
      const { fileBlocks, inner } = packedWidth(type, 4);
      const out = 20;
      const x = fill('normal', 6 * inner, random);
      x[2 * inner + 7] = Number.NaN;
      x[4 * inner + 9] = Number.POSITIVE_INFINITY;
      const weight = repacked(type, randomBlocks(type, out * fileBlocks, random), out);
      const { y } = await target.launch(
        contractOf(type),
        {
          ...{ weight, x: activations(x, inner).packed, y: new Float32Array(6 * out), tokens: Int32Array.of(6) },
          ...{ out, blocks: inner / 32, y_stride: out, accumulate: 0 },
        },
        { rows: 6, row_bytes: weight.length / out },
      );
      const finite = Array.from({ length: 6 }, (_, t) =>
        (y as Float32Array).subarray(t * out, (t + 1) * out).every(Number.isFinite),
      );
      expect(finite).toEqual([true, true, false, true, false, true]);
    },
  );
});
