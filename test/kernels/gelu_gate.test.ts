import fc from 'fast-check';
import { it } from 'vitest';
import { geluGate as contract } from '../../src/executor/kernels/index.js';
import { geluGate } from './reference/gelu_gate.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('gelu_gate', (target) => {
  it('multiplies gelu of each gate by a factor of rows that lie apart', () =>
    target.check(
      fc.tuple(size(8), size(700), fc.nat(90), fills(...FINITE), seed),
      async ([rows, columns, gap, kind, start]) => {
        const random = new Random(start);
        const x_stride = columns + gap;
        const [before, x] = [fill(kind, rows * columns, random), fill('normal', rows * x_stride, random)];
        const { y } = await target.launch(contract, { y: before.slice(), x, columns, x_stride }, { rows });
        expectClose(contract, y!, { values: geluGate(before, x, columns, x_stride) }, {});
      },
    ));
});
