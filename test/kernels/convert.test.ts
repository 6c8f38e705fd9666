import fc from 'fast-check';
import { expect, it } from 'vitest';
import { convert as contractOf } from '../../src/executor/kernels/index.js';
import { convert } from './reference/convert.js';
import { decode, type FloatArray } from './support/half.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('convert', (target) => {
  it('rounds to nearest, ties to even', () =>
    target.check(
      fc.tuple(
        fc.constantFrom('f16' as const, 'bf16' as const),
        size(5),
        size(2100),
        fills(...FINITE, 'special'),
        seed,
      ),
      async ([type, rows, inner, kind, start]) => {
        const x = fill(kind, rows * inner, new Random(start));
        const { y } = await target.launch(contractOf(type), { x, in: inner }, { rows });
        expect(decode(type, y as FloatArray)).toEqual(decode(type, convert(type, x)));
      },
    ));

  it('rounds halves of the last place to even', async () => {
    const x = Float32Array.of(1 + 2 ** -11, 1 + 3 * 2 ** -11, 65504, 65520, 2 ** -24, 2 ** -25, -(2 ** -25) * 1.01);
    const { y } = await target.launch(contractOf('f16'), { x, in: x.length }, { rows: 1 });
    expect([...decode('f16', y as FloatArray)]).toEqual([
      1,
      1 + 2 ** -9,
      65504,
      Number.POSITIVE_INFINITY,
      2 ** -24,
      0,
      -(2 ** -24),
    ]);
    const b = Float32Array.of(1 + 2 ** -8, 1 + 3 * 2 ** -8, 3.4e38, Number.NaN);
    const bf16 = await target.launch(contractOf('bf16'), { x: b, in: b.length }, { rows: 1 });
    expect([...decode('bf16', bf16.y as FloatArray)]).toEqual([1, 1 + 2 ** -6, Number.POSITIVE_INFINITY, Number.NaN]);
  });
});
