import fc from 'fast-check';
import { expect, it } from 'vitest';
import { swigluQuantize as contract, quantizeQ8, swiglu as swigluF32 } from '../../src/executor/kernels/index.js';
import { swigluQuantize } from './reference/swiglu_quantize.js';
import { expectQuantized } from './support/packed.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('swiglu_quantize', (target) => {
  it('quantizes silu(gate) * up, with the bits of swiglu and quantize_q8', () =>
    target.check(
      fc.tuple(fc.tuple(size(8), size(90)), fills('normal', 'wide', 'zeros', 'ones', 'denormal'), seed),
      async ([[rows, blocks], kind, start]) => {
        const ffn = 32 * blocks;
        const gate_up = fill(kind, rows * 2 * ffn, new Random(start));
        const { y } = await target.launch(contract, { gate_up, ffn }, { rows, blocks });
        const expected = swigluQuantize(gate_up, ffn);
        expectQuantized(y as Uint8Array, expected, ffn, (i) => swigluF32.tolerance.bound({}, Math.abs(expected[i]!)));

        const activated = await target.launch(swigluF32, { gate_up, ffn }, { rows });
        const unfused = await target.launch(quantizeQ8, { x: activated.y as Float32Array, in: ffn }, { rows, blocks });
        expect(y).toEqual(unfused.y);
      },
    ));
});
