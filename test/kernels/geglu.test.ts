import fc from 'fast-check';
import { it } from 'vitest';
import { geglu as contract } from '../../src/executor/kernels/index.js';
import { geglu } from './reference/geglu.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('geglu', (target) => {
  it('multiplies gelu of the gate by up', () =>
    target.check(fc.tuple(size(8), size(1200), fills(...FINITE), seed), async ([rows, ffn, kind, start]) => {
      const gate_up = fill(kind, rows * 2 * ffn, new Random(start));
      const { y } = await target.launch(contract, { gate_up, ffn }, { rows });
      expectClose(contract, y!, { values: geglu(gate_up, ffn) }, { ffn });
    }));

  it('is 0 far below 0 and the gate itself far above, where e^x leaves f32', async () => {
    const gates = [-1e20, -1e4, -40, -12, -10.5, -10, -9.5, -6, 6, 10, 12, 1e4, 1e20];
    const gate_up = Float32Array.of(...gates, ...gates.map(() => 1));
    const { y } = await target.launch(contract, { gate_up, ffn: gates.length }, { rows: 1 });
    expectClose(contract, y!, { values: geglu(gate_up, gates.length) }, {});
  });
});
