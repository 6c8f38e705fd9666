import fc from 'fast-check';
import { expect, it } from 'vitest';
import { gemm as contractOf } from '../../src/executor/kernels/index.js';
import { gemm } from './reference/gemm.js';
import { expectClose } from './support/compare.js';
import { decode, encode } from './support/half.js';
import { onEachTarget, type Target } from './support/targets.js';
import { FINITE, type Fill, fill, fills, Random, seed, size } from './support/values.js';

const UNTOUCHED = -12_345;

async function run(target: Target, type: 'f32' | 'f16' | 'bf16', shape: Shape, kind: Fill, start: number) {
  const { rows, out, inner, gap, missing } = shape;
  const random = new Random(start);
  const [x_stride, y_stride] = [inner + gap, out + gap];
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
  const written = new Float64Array(y.length).fill(UNTOUCHED);
  const magnitudes = new Float64Array(y.length);
  for (let t = 0; t < tokens; t++) {
    const expected = gemm(decode(type, weight), x.subarray(t * x_stride, t * x_stride + inner), out, inner);
    written.set(expected.values, t * y_stride);
    magnitudes.set(expected.magnitudes, t * y_stride);
  }
  expectClose(contract, result.y!, { values: written, magnitudes }, { in: inner });
  return result.y as Float32Array;
}

interface Shape {
  readonly rows: number;
  readonly out: number;
  readonly inner: number;
  /** Elements between rows of x and of y. */
  readonly gap: number;
  /** Rows that the step does not have. */
  readonly missing: number;
}

onEachTarget('gemm', (target) => {
  it('multiplies the rows that the step has, and leaves all else alone', () =>
    target.check(
      fc.tuple(
        fc.constantFrom('f32' as const, 'f16' as const, 'bf16' as const),
        fc.record({
          rows: size(130),
          out: size(130),
          inner: size(target.simulated ? 40 : 130),
          gap: fc.nat(5),
          missing: fc.nat(3),
        }),
        fills(...FINITE, 'special'),
        seed,
      ),
      async ([type, shape, kind, start]) => {
        await run(target, type, shape, kind, start);
      },
    ));

  it('gives a row the same bits among other numbers of rows', async () => {
    const shape = { rows: 70, out: 66, inner: 35, gap: 0, missing: 0 };
    const many = await run(target, 'f16', shape, 'normal', 4);
    for (const rows of [1, 16, 65]) {
      const few = await run(target, 'f16', { ...shape, rows }, 'normal', 4);
      expect(few).toEqual(many.slice(0, rows * 66));
    }
  });
});
