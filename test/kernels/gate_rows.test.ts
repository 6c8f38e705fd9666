import fc from 'fast-check';
import { it } from 'vitest';
import { gateRows as contract } from '../../src/executor/kernels/index.js';
import { gateRows } from './reference/gate_rows.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('gate_rows', (target) => {
  it('multiplies each row by the sigmoid of its gate', () =>
    target.check(
      fc.tuple(size(8), size(700), fills(...FINITE), fills('normal', 'wide', 'zeros'), seed),
      async ([rows, columns, kind, gates, start]) => {
        const random = new Random(start);
        const before = fill(kind, rows * columns, random);
        const gate = fill(gates, rows, random);
        const { y } = await target.launch(contract, { y: before.slice(), gate, columns }, { rows });
        expectClose(contract, y!, { values: gateRows(before, gate, columns) }, {});
      },
    ));
});
