import fc from 'fast-check';
import { it } from 'vitest';
import { causalConv as contract } from '../../src/executor/kernels/index.js';
import { causalConv } from './reference/causal_conv.js';
import { expectClose } from './support/compare.js';
import { plainSlices, sliceTables } from './support/slices.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('causal_conv', (target) => {
  it('convolves each row with those before it, and keeps the last rows for the next slice', () =>
    target.check(
      fc.tuple(
        plainSlices(3, target.simulated ? 5 : 20),
        fc.tuple(size(600), fc.integer({ min: 2, max: 5 }), fc.nat(9)),
        fills('normal', 'zeros', 'ones'),
        seed,
      ),
      async ([of, [channels, taps, apart], kind, start]) => {
        const random = new Random(start);
        const rows = of.reduce((sum, slice) => sum + slice.rows, 0);
        const x_stride = channels + apart;
        const x = fill(kind, rows * x_stride, random);
        const close = Float32Array.from({ length: rows * channels }, (_, i) => {
          return x[Math.floor(i / channels) * x_stride + (i % channels)]!;
        });
        const weight = fill('normal', channels * taps, random);
        const bias = fill('normal', channels, random);
        const states = 2 * of.length;
        const kept = fill('normal', states * (taps - 1) * channels, random);
        const { y, kept: after } = await target.launch<typeof contract.arguments>(
          contract,
          { x, weight, bias, kept: kept.slice(), ...sliceTables(of), channels, taps, x_stride },
          { rows, states, slices: of.length },
        );
        const expected = causalConv(close, weight, bias, kept, of, { channels, taps });
        expectClose(contract, y!, expected.y, { taps });
        expectClose(contract, after!, { values: expected.kept }, { taps: 0 });
      },
    ));
});
