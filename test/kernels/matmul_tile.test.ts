import fc from 'fast-check';
import { expect, it } from 'vitest';
import { matmulTile as contractOf, type TileVariant } from '../../src/executor/kernels/index.js';
import { matmulTile } from './reference/matmul_tile.js';
import { expectClose, inStrides } from './support/compare.js';
import { decode, encode, type FloatArray } from './support/half.js';
import { onEachTileTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

const UNTOUCHED = -12_345;
const types = fc.constantFrom('f16' as const, 'bf16' as const);
const FORMS: readonly TileVariant[] = ['few', 'some', 'many'];

onEachTileTarget('matmul_tile', (target) => {
  it('multiplies the rows that the step has, and leaves all else alone', () =>
    target.check(
      fc.tuple(
        fc.tuple(types, fc.constantFrom(...FORMS), fc.constantFrom(0, 1)),
        fc.record({ rows: size(target.simulated ? 40 : 150), out: size(150), eighths: size(75) }),
        fc.record({ yGap: fc.nat(5), missing: fc.nat(3) }),
        fc.tuple(fills(...FINITE, 'special'), seed),
      ),
      async ([[type, form, accumulate], { rows, out, eighths }, { yGap, missing }, [kind, start]]) => {
        const random = new Random(start);
        const inner = eighths * 8;
        const y_stride = out + yGap;
        const tokens = Math.max(0, rows - missing);
        const weight = encode(type, fill(kind === 'wide' ? 'normal' : kind, out * inner, random));
        const x = encode(type, fill(kind, rows * inner, random));
        const y = new Float32Array((rows - 1) * y_stride + out).fill(UNTOUCHED);
        const contract = contractOf(type, form);
        const result = await target.launch(
          contract,
          { weight, x, y, tokens: Int32Array.of(tokens), out, in: inner, y_stride, accumulate },
          { rows },
        );
        const expected = matmulTile(
          decode(type, weight),
          decode(type, x).subarray(0, tokens * inner),
          out,
          inner,
          accumulate ? new Float32Array(tokens * out).fill(UNTOUCHED) : undefined,
        );
        const written = inStrides(expected, { out, stride: y_stride, length: y.length }, UNTOUCHED);
        expectClose(contract, result.y!, written, { in: inner });
      },
    ));

  it('gives a row the same bits in every form, alone and among others', () =>
    target.check(
      fc.tuple(types, fc.record({ out: size(40), eighths: size(60), rows: size(35) }), seed),
      async ([type, { out, eighths, rows }, start]) => {
        const random = new Random(start);
        const inner = eighths * 8;
        const weight = encode(type, fill('normal', out * inner, random));
        const x = encode(type, fill('normal', rows * inner, random));
        const run = async (form: TileVariant, part: FloatArray) => {
          const count = part.length / inner;
          const { y } = await target.launch(
            contractOf(type, form),
            {
              weight,
              x: part,
              y: new Float32Array(count * out),
              tokens: Int32Array.of(count),
              out,
              in: inner,
              y_stride: out,
              accumulate: 0,
            },
            { rows: count },
          );
          return y as Float32Array;
        };
        const together = await run('few', x);
        for (const form of ['some', 'many'] as const) expect(await run(form, x)).toEqual(together);
        const row = random.below(rows);
        const alone = x.slice(row * inner, (row + 1) * inner);
        for (const form of FORMS) {
          expect(await run(form, alone)).toEqual(together.slice(row * out, (row + 1) * out));
        }
      },
      Math.min(target.runs, 40),
    ));
});
