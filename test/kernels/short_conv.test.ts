import fc from 'fast-check';
import { it } from 'vitest';
import { shortConv as contract } from '../../src/executor/kernels/index.js';
import { shortConv } from './reference/short_conv.js';
import { expectClose } from './support/compare.js';
import { replayRowsOf, slices, sliceTables } from './support/slices.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('short_conv', (target) => {
  it('convolves each row with those before it, replay rows among them, and keeps the last products', () =>
    target.check(
      fc.tuple(
        slices(3, target.simulated ? 5 : 20),
        fc.tuple(size(600), fc.integer({ min: 2, max: 5 })),
        fills('normal', 'zeros', 'ones'),
        seed,
      ),
      async ([of, [columns, taps], kind, start]) => {
        const random = new Random(start);
        const rows = of.reduce((sum, slice) => sum + slice.rows, 0);
        const states = 2 * of.length;
        const gates = fill(kind, rows * 3 * columns, random);
        const weight = fill('normal', columns * taps, random);
        const kept = fill('normal', states * (taps - 1) * columns, random);
        const replay = fill(kind, replayRowsOf(of) * columns, random);
        const { y, kept: after } = await target.launch<typeof contract.arguments>(
          contract,
          { gates, weight, kept: kept.slice(), replay, ...sliceTables(of), columns, taps },
          { rows, states, slices: of.length, replay_rows: replayRowsOf(of) },
        );
        const expected = shortConv(gates, weight, kept, of, replay, { columns, taps });
        expectClose(contract, y!, expected.y, { taps });
        expectClose(contract, after!, { values: expected.kept }, { taps: 1 });
      },
    ));
});
