import fc from 'fast-check';
import { expect, it } from 'vitest';
import { headsFirst as contract } from '../../src/executor/kernels/index.js';
import { headsFirst } from './reference/heads_first.js';
import { onEachTarget } from './support/targets.js';
import { fill, Random, seed, size } from './support/values.js';

onEachTarget('heads_first', (target) => {
  it('copies the first columns of each head, heads first', () =>
    target.check(
      fc.tuple(size(7), size(6), size(300), fc.nat(70), seed),
      async ([rows, heads, columns, more, start]) => {
        const width = columns + more;
        const x = fill('normal', rows * heads * width, new Random(start));
        const y = new Float32Array(heads * rows * columns);
        const values = { x, y, tokens: Int32Array.of(rows), heads, width, columns };
        const result = await target.launch(contract, values, { rows });
        expect(result.y).toEqual(headsFirst(x, heads, width, columns));
      },
    ));
});
