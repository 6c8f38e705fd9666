import fc from 'fast-check';
import { it } from 'vitest';
import { swiglu as contract, swigluF16 } from '../../src/executor/kernels/index.js';
import { swiglu } from './reference/swiglu.js';
import { expectClose } from './support/compare.js';
import { decode, encode, type FloatArray } from './support/half.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('swiglu', (target) => {
  it('multiplies silu of the gate by up', () =>
    target.check(fc.tuple(size(8), size(1200), fills(...FINITE, 'special'), seed), async ([rows, ffn, kind, start]) => {
      const gate_up = fill(kind, rows * 2 * ffn, new Random(start));
      const { y } = await target.launch(contract, { gate_up, ffn }, { rows });
      expectClose(contract, y!, { values: swiglu(gate_up, ffn) }, { ffn });
    }));

  if (target.has(swigluF16)) {
    it('does the same in f16', () =>
      target.check(
        fc.tuple(size(8), size(1200), fills('normal', 'special'), seed),
        async ([rows, ffn, kind, start]) => {
          const gate_up = encode('f16', fill(kind, rows * 2 * ffn, new Random(start))) as Uint16Array;
          const { y } = await target.launch(swigluF16, { gate_up, ffn }, { rows });
          const values = swiglu(decode('f16', gate_up), ffn);
          expectClose(swigluF16, decode('f16', y as FloatArray), { values }, { ffn });
        },
      ));
  }

  it('stays right where e^-gate leaves f32', async () => {
    const gates = [-1e4, -104, -90, -88.8, -88.5, -88, -87.4, -87.2, 87.2, 88.5, 104, 1e4, Number.NEGATIVE_INFINITY];
    const gate_up = Float32Array.of(...gates, ...gates.map(() => 1));
    const { y } = await target.launch(contract, { gate_up, ffn: gates.length }, { rows: 1 });
    expectClose(contract, y!, { values: swiglu(gate_up, gates.length) }, {});
  });
});
