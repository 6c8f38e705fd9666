import fc from 'fast-check';
import { it } from 'vitest';
import { deltaConv as contractOf } from '../../src/executor/kernels/index.js';
import { deltaConv } from './reference/delta_conv.js';
import { replayRowsIn } from './reference/delta_net.js';
import { expectClose } from './support/compare.js';
import { replayRowsOf, slices, sliceTables } from './support/slices.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('delta_conv', (target) => {
  it('convolves each row with those before it, replay rows among them, and keeps the last for the next slice', () =>
    target.check(
      fc.tuple(
        slices(3, target.simulated ? 5 : 20),
        fc.tuple(size(3), size(4), fc.constantFrom(1, 8, 32, 40, 128), size(9)),
        fills('normal', 'zeros', 'ones'),
        fc.constantFrom(1e-6, 1e-3),
        seed,
      ),
      async ([of, [keyHeads, valueHeads, dim, apart], kind, wanted, start]) => {
        const random = new Random(start);
        const eps = Math.fround(wanted);
        const channels = (2 * keyHeads + valueHeads) * dim;
        const rows = of.reduce((sum, slice) => sum + slice.rows, 0);
        const stride = channels + apart - 1;
        const x = fill(kind, rows * stride, random);
        const weight = fill('normal', channels * 4, random);
        const states = 2 * of.length;
        const kept = fill('normal', states * 3 * channels, random);
        const sizes = { key_heads: keyHeads, value_heads: valueHeads, dim };
        const replay = fill(kind, replayRowsOf(of) * 2 * (channels + valueHeads), random);
        const { y, kept: after } = await target.launch<typeof contractOf.arguments>(
          contractOf,
          { x, weight, kept: kept.slice(), replay, ...sliceTables(of), ...sizes, x_stride: stride, eps },
          { rows, states, slices: of.length, replay_rows: replayRowsOf(of) },
        );
        const close = Float32Array.from({ length: rows * channels }, (_, i) => {
          return x[Math.floor(i / channels) * stride + (i % channels)]!;
        });
        const shape = { keyHeads, valueHeads, dim, eps };
        const expected = deltaConv(close, weight, kept, of, replayRowsIn(replay, shape), shape);
        expectClose(contractOf, y!, expected.y, { dim });
        expectClose(contractOf, after!, { values: expected.kept }, { dim: -8 * 40 });
      },
    ));
});
