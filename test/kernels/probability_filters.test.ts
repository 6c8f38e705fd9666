import fc from 'fast-check';
import { it } from 'vitest';
import { minP as minPContract, topP as topPContract } from '../../src/executor/kernels/index.js';
import { minP } from './reference/min_p.js';
import { topP } from './reference/top_p.js';
import { expectKept } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

/** Kernels that set to -inf what a share p rules out, and what each keeps. */
const FILTERS = [
  ['min_p', minPContract, minP, 'keeps what is at least p times as probable as the best'],
  ['top_p', topPContract, topP, 'keeps the fewest that hold a share p of the mass, and always the best'],
] as const;

for (const [kernel, contract, reference, keeps] of FILTERS) {
  onEachTarget(kernel, (target) => {
    it(keeps, () =>
      target.check(
        fc.tuple(
          size(target.simulated ? 300 : 2000),
          fc.array(fc.constantFrom(0, 0.001, 0.05, 0.5, 0.9, 0.99, 1).map(Math.fround), { minLength: 1, maxLength: 4 }),
          fills('normal', 'denormal', 'infinite', 'wide'),
          seed,
        ),
        async ([vocabulary, p, kind, start]) => {
          const random = new Random(start);
          const logits = fill(kind, p.length * vocabulary, random);
          p.forEach((_, row) => {
            logits[row * vocabulary + random.below(vocabulary)] = 4.5;
          });
          const result = await target.launch(
            contract,
            { logits, p: Float32Array.from(p), vocabulary },
            { samples: p.length },
          );
          p.forEach((share, row) => {
            const part = (array: ArrayLike<number>) =>
              (array as Float32Array).subarray(row * vocabulary, (row + 1) * vocabulary);
            expectKept(part(result.logits!), part(logits), reference(part(logits), share));
          });
        },
      ),
    );
  });
}
