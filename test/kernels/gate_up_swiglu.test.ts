import fc from 'fast-check';
import { it } from 'vitest';
import { gateUpSwiglu as contractOf, matmul, swiglu } from '../../src/executor/kernels/index.js';
import { gateUpSwiglu } from './reference/gate_up_swiglu.js';
import { expectClose } from './support/compare.js';
import { decode, encode } from './support/half.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('gate_up_swiglu', (target) => {
  it('is two matmuls and swiglu in one', () =>
    target.check(
      fc.tuple(
        fc.constantFrom('f32' as const, 'f16' as const),
        fc.record({ rows: size(target.simulated ? 9 : 70), ffn: size(40), hidden: size(300) }),
        fills('normal', 'zeros', 'ones', 'denormal'),
        seed,
      ),
      async ([type, { rows, ffn, hidden }, kind, start]) => {
        const random = new Random(start);
        const weight = encode(
          type,
          fill(kind, 2 * ffn * hidden, random).map((w) => w / 8),
        );
        const x = fill(kind, rows * hidden, random);
        const tokens = Int32Array.of(rows);
        const contract = contractOf(type);
        const { y } = await target.launch(
          contract,
          { weight, x, y: new Float32Array(rows * ffn), tokens, ffn, hidden },
          { rows },
        );
        expectClose(contract, y!, gateUpSwiglu(decode(type, weight), x, ffn, hidden), { hidden });

        const both = await target.launch(
          matmul(type),
          {
            weight,
            x,
            y: new Float32Array(rows * 2 * ffn),
            tokens,
            out: 2 * ffn,
            in: hidden,
            x_stride: hidden,
            y_stride: 2 * ffn,
          },
          { rows },
        );
        const unfused = await target.launch(swiglu, { gate_up: both.y as Float32Array, ffn }, { rows });
        expectClose(swiglu, y!, { values: Float64Array.from(unfused.y!) }, {});
      },
    ));
});
