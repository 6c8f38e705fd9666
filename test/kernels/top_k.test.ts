import fc from 'fast-check';
import { it } from 'vitest';
import { topK as contract } from '../../src/executor/kernels/index.js';
import { topK } from './reference/top_k.js';
import { expectKept } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('top_k', (target) => {
  it('keeps the k largest of each row, ties to the lower id', () =>
    target.check(
      fc.tuple(
        size(target.simulated ? 300 : 2000),
        fc.array(fc.oneof(fc.constantFrom(0, 1, 2), fc.nat(300)), { minLength: 1, maxLength: 4 }),
        fills('normal', 'zeros', 'denormal', 'infinite', 'wide'),
        seed,
      ),
      async ([vocabulary, k, kind, start]) => {
        const random = new Random(start);
        const logits = fill(kind, k.length * vocabulary, random).map((v) => (kind === 'normal' ? Math.round(v) : v));
        const result = await target.launch(
          contract,
          { logits, k: Int32Array.from(k), vocabulary },
          { samples: k.length },
        );
        k.forEach((count, row) => {
          const part = (array: ArrayLike<number>) =>
            (array as Float32Array).subarray(row * vocabulary, (row + 1) * vocabulary);
          expectKept(part(result.logits!), part(logits), topK(part(logits), count));
        });
      },
    ));
});
