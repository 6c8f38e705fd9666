import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  biasAdd,
  blockFormat,
  matmulNormedParts as contract,
  MATMUL_PACKED_ROWS,
  MOST_PARTS,
  matmulNormed,
  normParts,
  PACKED_TYPES,
  packedRowBytes,
} from '../../src/executor/kernels/index.js';
import { readBlocks } from './reference/blocks.js';
import { matmulNormedParts } from './reference/matmul_normed_parts.js';
import { partsOfSquares } from './reference/rms_norm.js';
import { randomBlocks } from './support/blocks.js';
import { repacked } from './support/packed.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed } from './support/values.js';

/** Elements of a block of the types that have the most: every type has rows of so many. */
const WIDEST_BLOCK = Math.max(...PACKED_TYPES.map((type) => blockFormat(type).blockElements));

/** Types of up to three weights, and of how many sixteens of rows each is. */
const weights = fc.array(fc.tuple(fc.constantFrom(...PACKED_TYPES), fc.integer({ min: 1, max: 3 })), {
  minLength: 1,
  maxLength: MOST_PARTS,
});

onEachTarget('matmul_normed_parts', (target) => {
  it('is a matmul_normed of each weight and bias_add in one, to the bit', () =>
    target.check(
      fc.tuple(
        weights,
        fc.constantFrom(1, 2, 5),
        fc.boolean(),
        fc.tuple(fills('normal', 'zeros', 'ones', 'denormal'), seed),
      ),
      async ([types, units, isBiased, [kind, start]]) => {
        const random = new Random(start);
        const eps = Math.fround(1e-5);
        const inner = WIDEST_BLOCK * units;
        const [x, norm] = [fill(kind, inner, random), fill('normal', inner, random)];
        const parts = partsOfSquares(x);
        const blocks = inner / 32;
        const made = types.map(([type, sixteens]) => {
          const out = sixteens * MATMUL_PACKED_ROWS;
          const file = randomBlocks(type, (out * inner) / blockFormat(type).blockElements, random);
          return { type, out, file, weight: repacked(type, file, out), row_bytes: packedRowBytes(type, inner) };
        });
        const total = made.reduce((sum, { out }) => sum + out, 0);
        const bias = fill('normal', total, random);
        const at = (i: number) => made[i] ?? { ...made[0]!, out: 0 };
        const { y } = await target.launch(
          contract,
          {
            ...{ weight_0: at(0).weight, weight_1: at(1).weight, weight_2: at(2).weight },
            ...{ out_0: at(0).out, out_1: at(1).out, out_2: at(2).out },
            ...Object.fromEntries([0, 1, 2].map((i) => [`type_${i}`, PACKED_TYPES.indexOf(at(i).type)])),
            ...{ x, norm, parts, bias, blocks, biased: Number(isBiased), eps },
          },
          {
            ...{ row_bytes_0: at(0).row_bytes, row_bytes_1: at(1).row_bytes, row_bytes_2: at(2).row_bytes },
            ...{ in: inner, parts: normParts(inner), biases: total },
          },
        );
        const apart = new Float32Array(total);
        let column = 0;
        for (const { type, out, file, weight, row_bytes } of made) {
          const own = await target.launch(
            matmulNormed(type),
            { weight, x, norm, parts, out, blocks, eps },
            { row_bytes, in: inner, parts: normParts(inner) },
          );
          apart.set(own.y as Float32Array, column);
          if (kind === 'normal') {
            const { values, magnitudes } = matmulNormedParts(readBlocks(type, file), x, norm, out, eps);
            for (let n = 0; n < out; n++) {
              const product = (y as Float32Array)[column + n]! - (isBiased ? bias[column + n]! : 0);
              expect(Math.abs(product - values[n]!)).toBeLessThanOrEqual(0.01 * magnitudes[n]! + 1e-5);
            }
          }
          column += out;
        }
        const biased = isBiased ? (await target.launch(biasAdd, { y: apart, bias, out: total }, { rows: 1 })).y : apart;
        expect(y).toEqual(biased);
      },
      Math.ceil(target.runs / 2),
    ));
});
