import fc from 'fast-check';
import { it } from 'vitest';
import { sigmoidGate } from '../../src/executor/kernels/index.js';
import { sigmoidGate as reference } from './reference/sigmoid_gate.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('sigmoid_gate', (target) => {
  it('multiplies each element by the sigmoid of its gate', () =>
    target.check(
      fc.tuple(size(8), size(700), fills(...FINITE), fills('normal', 'wide', 'zeros'), seed),
      async ([rows, columns, kind, gates, start]) => {
        const random = new Random(start);
        const before = fill(kind, rows * columns, random);
        const gate = fill(gates, rows * columns, random);
        const { y } = await target.launch<typeof sigmoidGate.arguments>(
          sigmoidGate,
          { y: before.slice(), gate, columns },
          { rows },
        );
        expectClose(sigmoidGate, y!, { values: reference(before, gate) }, {});
      },
    ));
});
