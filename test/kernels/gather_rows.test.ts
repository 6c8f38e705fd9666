import fc from 'fast-check';
import { it } from 'vitest';
import { gatherRows as contract } from '../../src/executor/kernels/index.js';
import { gatherRows } from './reference/gather_rows.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('gather_rows', (target) => {
  it('copies the rows that the index names', () =>
    target.check(
      fc.tuple(size(20), size(20), size(600), fills('normal', 'special', 'denormal'), seed),
      async ([tokens, samples, hidden, kind, start]) => {
        const random = new Random(start);
        const x = fill(kind, tokens * hidden, random);
        const index = Int32Array.from({ length: samples }, () => random.below(tokens));
        const dimensions = { tokens, samples };
        const { y } = await target.launch(contract, { x, index, hidden }, dimensions);
        expectClose(contract, y!, { values: gatherRows(x, index, hidden) }, dimensions);
      },
    ));
});
