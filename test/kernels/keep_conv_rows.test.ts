import fc from 'fast-check';
import { it } from 'vitest';
import { keepConvRows as contract } from '../../src/executor/kernels/index.js';
import { keepConvRows } from './reference/keep_conv_rows.js';
import { expectClose } from './support/compare.js';
import { keptRows } from './support/kept-rows.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('keep_conv_rows', (target) => {
  it('stores b * x of the rows that the index names, and leaves other replay rows', () =>
    target.check(
      fc.tuple(fc.tuple(size(8), size(9)), size(600), fills('normal', 'zeros', 'ones'), seed),
      async ([[rows, replayRows], columns, kind, start]) => {
        const random = new Random(start);
        const gates = fill(kind, rows * 3 * columns, random);
        const before = fill('normal', replayRows * columns, random);
        const pairs = keptRows(random, rows, replayRows);
        const { replay } = await target.launch<typeof contract.arguments>(
          contract,
          { gates, index: Int32Array.from(pairs.flat()), replay: before.slice(), columns },
          { rows, kept: pairs.length, replay_rows: replayRows },
        );
        const values = keepConvRows(gates, pairs, before, columns);
        expectClose(contract, replay!, { values }, {});
      },
    ));
});
