import fc from 'fast-check';
import { expect, it } from 'vitest';
import { softmax as contractOf } from '../../src/executor/kernels/index.js';
import { softmax } from './reference/softmax.js';
import { expectClose } from './support/compare.js';
import { decode, encode, type FloatArray } from './support/half.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

const TYPES = ['f32', 'f16'] as const;

onEachTarget('softmax', (target) => {
  it('turns each row into probabilities', () =>
    target.check(
      fc.tuple(
        fc.constantFrom(...TYPES.filter((type) => target.has(contractOf(type)))),
        fc.tuple(size(8), size(2000)),
        fills('normal', 'zeros', 'ones', 'denormal', 'infinite', 'special', 'wide'),
        seed,
      ),
      async ([type, [rows, columns], kind, start]) => {
        const x = encode(type, fill(kind, rows * columns, new Random(start)));
        const { y } = await target.launch(contractOf(type), { x, columns }, { rows });
        const values = softmax(decode(type, x), columns);
        expectClose(contractOf(type), decode(type, y as FloatArray), { values }, { columns });
      },
    ));

  it('gives 0 for a row that is masked from end to end', async () => {
    const x = new Float32Array(3 * 300).fill(Number.NEGATIVE_INFINITY);
    x[300 + 7] = -80;
    const { y } = await target.launch(contractOf('f32'), { x, columns: 300 }, { rows: 3 });
    expect([...y!.entries()].filter(([, value]) => value !== 0)).toEqual([[307, 1]]);
  });
});
