import fc from 'fast-check';
import { it } from 'vitest';
import { joinRows as contract } from '../../src/executor/kernels/index.js';
import { joinRows } from './reference/join_rows.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('join_rows', (target) => {
  it('copies the rows of both side by side', () =>
    target.check(
      fc.tuple(size(20), size(600), fills('normal', 'special', 'denormal'), seed),
      async ([rows, columns, kind, start]) => {
        const random = new Random(start);
        const [a, b] = [fill(kind, rows * columns, random), fill(kind, rows * columns, random)];
        const { y } = await target.launch(contract, { a, b, columns }, { rows });
        expectClose(contract, y!, { values: joinRows(a, b, columns) }, { rows, columns });
      },
    ));
});
