import fc from 'fast-check';
import { it } from 'vitest';
import { scale as contractOf } from '../../src/executor/kernels/index.js';
import { scale } from './reference/scale.js';
import { expectClose } from './support/compare.js';
import { decode, encode, type FloatArray } from './support/half.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

const TYPES = ['f32', 'f16'] as const;

onEachTarget('scale', (target) => {
  it('multiplies every element by the factor', () =>
    target.check(
      fc.tuple(
        fc.constantFrom(...TYPES.filter((type) => target.has(contractOf(type)))),
        fc.tuple(size(8), size(1200)),
        fills(...FINITE, 'special'),
        fc.constantFrom(0, -1, 0.125, 1 / 3, 1e-6, 3e4).map(Math.fround),
        seed,
      ),
      async ([type, [rows, columns], kind, factor, start]) => {
        const x = encode(type, fill(kind, rows * columns, new Random(start)));
        const result = await target.launch(contractOf(type), { x, columns, factor }, { rows });
        const expected = encode(type, Float32Array.from(scale(decode(type, x), factor)));
        const values = Float64Array.from(decode(type, expected));
        expectClose(contractOf(type), decode(type, result.x as FloatArray), { values }, {});
      },
    ));
});
