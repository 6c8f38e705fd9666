import fc from 'fast-check';
import { it } from 'vitest';
import { causalMask as contractOf } from '../../src/executor/kernels/index.js';
import { causalMask } from './reference/causal_mask.js';
import { expectClose } from './support/compare.js';
import { decode, encode, type FloatArray } from './support/half.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('causal_mask', (target) => {
  it('masks the columns beyond row + past, square or not', () =>
    target.check(
      fc.tuple(
        fc.constantFrom('f32' as const, 'f16' as const),
        fc.record({ rows: size(40), heads: size(4), columns: size(300), past: fc.oneof(fc.constant(0), fc.nat(300)) }),
        fc.constantFrom(Number.NEGATIVE_INFINITY, -1e4, 0),
        fills('normal', 'special'),
        seed,
      ),
      async ([type, { rows, heads, columns, past }, value, kind, start]) => {
        const scores = encode(type, fill(kind, rows * heads * columns, new Random(start)));
        const result = await target.launch(contractOf(type), { scores, heads, columns, past, value }, { rows });
        const stored = decode(type, encode(type, Float32Array.of(value)))[0]!;
        const values = causalMask(decode(type, scores), heads, columns, past, stored);
        expectClose(contractOf(type), decode(type, result.scores as FloatArray), { values }, {});
      },
    ));
});
