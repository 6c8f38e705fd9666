import fc from 'fast-check';
import { it } from 'vitest';
import { keepDeltaRows as contract } from '../../src/executor/kernels/index.js';
import { keepDeltaRows } from './reference/keep_delta_rows.js';
import { expectClose } from './support/compare.js';
import { keptRows } from './support/kept-rows.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('keep_delta_rows', (target) => {
  it('copies the inputs of the rows that the index names, and leaves other replay rows', () =>
    target.check(
      fc.tuple(
        fc.tuple(size(8), size(9)),
        fc.tuple(size(3), size(4), fc.constantFrom(1, 8, 32, 128), size(9)),
        fills('normal', 'special', 'denormal'),
        seed,
      ),
      async ([[rows, replayRows], [keyHeads, valueHeads, dim, apart], kind, start]) => {
        const random = new Random(start);
        const channels = (2 * keyHeads + valueHeads) * dim;
        const stride = channels + apart - 1;
        const x = fill(kind, rows * stride, random);
        const qkv = fill(kind, rows * channels, random);
        const [beta, alpha] = [fill(kind, rows * stride, random), fill(kind, rows * stride, random)];
        const columns = 2 * (channels + valueHeads);
        const before = fill('normal', replayRows * columns, random);
        const pairs = keptRows(random, rows, replayRows);
        const { replay } = await target.launch<typeof contract.arguments>(
          contract,
          {
            ...{ x, qkv, beta, alpha, index: Int32Array.from(pairs.flat()), replay: before.slice() },
            ...{ key_heads: keyHeads, value_heads: valueHeads, dim, x_stride: stride },
          },
          { rows, kept: pairs.length, replay_rows: replayRows },
        );
        const inputs = { x, qkv, beta, alpha, stride };
        const values = keepDeltaRows(inputs, pairs, before, { keyHeads, valueHeads, dim });
        expectClose(contract, replay!, { values }, {});
      },
    ));
});
