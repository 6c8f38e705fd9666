import fc from 'fast-check';
import { it } from 'vitest';
import { mask as contractOf } from '../../src/executor/kernels/index.js';
import { mask } from './reference/mask.js';
import { expectClose } from './support/compare.js';
import { decode, encode, type FloatArray, toHalf } from './support/half.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

const TYPES = ['f32', 'f16'] as const;

onEachTarget('mask', (target) => {
  it('masks the columns past each row’s position, and those that a window leaves behind', () =>
    target.check(
      fc.tuple(
        fc.constantFrom(...TYPES.filter((type) => target.has(contractOf(type)))),
        fc.record({ rows: size(20), heads: size(4), columns: size(300), window: fc.constantFrom(0, 1, 7, 64, 400) }),
        fc.constantFrom(Number.NEGATIVE_INFINITY, -1e4, 0),
        fills('normal', 'special', 'denormal'),
        seed,
      ),
      async ([type, { rows, heads, columns, window }, value, kind, start]) => {
        const random = new Random(start);
        const scores = encode(type, fill(kind, rows * heads * columns, random));
        // From "nothing is seen", -1, to past the last column.
        const row_position = Int32Array.from({ length: rows }, () => random.below(columns + 4) - 1);
        const result = await target.launch(
          contractOf(type),
          { scores, row_position, heads, columns, window, value },
          { rows },
        );
        const stored = decode(type, encode(type, Float32Array.of(value)))[0]!;
        const values = mask(decode(type, scores), row_position, heads, columns, stored, window);
        expectClose(contractOf(type), decode(type, result.scores as FloatArray), { values }, {});
      },
    ));

  if (target.has(contractOf('f16'))) {
    it('stores the mask value as -inf in f16 where f16 cannot hold it', async () => {
      const result = await target.launch(
        contractOf('f16'),
        { scores: new Uint16Array(3), row_position: Int32Array.of(0), heads: 1, columns: 3, window: 0, value: -1e9 },
        { rows: 1 },
      );
      const infinite = toHalf(Number.NEGATIVE_INFINITY);
      expectClose(contractOf('f16'), result.scores!, { values: Float64Array.of(0, infinite, infinite) }, {});
    });
  }
});
