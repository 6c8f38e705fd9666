import fc from 'fast-check';
import { expect, it } from 'vitest';
import { matmul as contractOf } from '../../src/executor/kernels/index.js';
import { matmul } from './reference/matmul.js';
import { expectClose, inStrides } from './support/compare.js';
import { decode, encode } from './support/half.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

const UNTOUCHED = -12_345;

onEachTarget('matmul', (target) => {
  it('multiplies the rows that the step has, and leaves all else alone', () =>
    target.check(
      fc.tuple(
        fc.constantFrom('f32' as const, 'f16' as const),
        fc.record({ rows: size(target.simulated ? 20 : 130), out: size(70), inner: size(600) }),
        fc.record({ xGap: fc.nat(5), yGap: fc.nat(5), missing: fc.nat(3) }),
        fc.tuple(fills(...FINITE, 'special'), seed),
      ),
      async ([type, { rows, out, inner }, { xGap, yGap, missing }, [kind, start]]) => {
        const random = new Random(start);
        const [x_stride, y_stride] = [inner + xGap, out + yGap];
        const tokens = Math.max(0, rows - missing);
        const weight = encode(type, fill(kind === 'wide' ? 'normal' : kind, out * inner, random));
        const x = fill(kind, rows * x_stride, random).subarray(0, (rows - 1) * x_stride + inner);
        const y = new Float32Array((rows - 1) * y_stride + out).fill(UNTOUCHED);
        const contract = contractOf(type);
        const result = await target.launch(
          contract,
          { weight, x, y, tokens: Int32Array.of(tokens), out, in: inner, x_stride, y_stride },
          { rows },
        );
        const dense = Float32Array.from(
          { length: tokens * inner },
          (_, i) => x[Math.floor(i / inner) * x_stride + (i % inner)]!,
        );
        const expected = matmul(decode(type, weight), dense, out, inner);
        const written = inStrides(expected, { out, stride: y_stride, length: y.length }, UNTOUCHED);
        expectClose(contract, result.y!, written, { in: inner });
      },
    ));

  it('gives a row the same bits alone and among others', () =>
    target.check(
      fc.tuple(
        fc.constantFrom('f32' as const, 'f16' as const),
        fc.record({ rows: size(17), out: size(50), inner: size(1200) }),
        seed,
      ),
      async ([type, { rows, out, inner }, start]) => {
        const random = new Random(start);
        const weight = encode(type, fill('normal', out * inner, random));
        const x = fill('normal', rows * inner, random);
        const run = async (part: Float32Array) => {
          const count = part.length / inner;
          const given = { tokens: Int32Array.of(count), out, in: inner, x_stride: inner, y_stride: out };
          const y = new Float32Array(count * out);
          return (await target.launch(contractOf(type), { weight, x: part, y, ...given }, { rows: count })).y!;
        };
        const together = await run(x);
        for (let row = 0; row < rows; row++) {
          const alone = await run(x.slice(row * inner, (row + 1) * inner));
          expect(alone).toEqual(together.slice(row * out, (row + 1) * out));
        }
      },
    ));
});
