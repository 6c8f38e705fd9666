import fc from 'fast-check';
import { it } from 'vitest';
import { matchMagnitude as contract } from '../../src/executor/kernels/index.js';
import { matchMagnitude } from './reference/match_magnitude.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('match_magnitude', (target) => {
  it('makes each row as long as the other', () =>
    target.check(
      fc.tuple(size(8), size(1200), fills('normal', 'ones', 'zeros'), fills('normal', 'wide', 'zeros'), seed),
      async ([rows, columns, kind, other, start]) => {
        const random = new Random(start);
        const [before, x] = [fill(kind, rows * columns, random), fill(other, rows * columns, random)];
        const { y } = await target.launch(contract, { y: before.slice(), x, columns }, { rows });
        expectClose(contract, y!, { values: matchMagnitude(before, x, columns) }, { columns });
      },
    ));
});
