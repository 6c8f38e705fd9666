import fc from 'fast-check';
import { it } from 'vitest';
import { combineExperts as contract } from '../../src/executor/kernels/index.js';
import { combineExperts } from './reference/combine_experts.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

const UNTOUCHED = -12_345;

onEachTarget('combine_experts', (target) => {
  it('adds up what experts made of each row that counts, and leaves the others alone', () =>
    target.check(
      fc.tuple(size(9), size(300), fc.integer({ min: 1, max: 8 }), fc.nat(3), fills(...FINITE), fc.nat(1), seed),
      async ([rows, hidden, used, missing, kind, accumulate, start]) => {
        const random = new Random(start);
        const [places, tokens] = [rows * used, Math.max(0, rows - missing)];
        const y = fill(kind, places * hidden, random);
        const weights = fill('normal', places, random);
        const place_of = Int32Array.from({ length: places }, () => random.below(places));
        const x = new Float32Array(rows * hidden).fill(UNTOUCHED);
        const values = { y, place_of, weights, x, tokens: Int32Array.of(tokens), hidden, used, accumulate };
        const result = await target.launch(contract, values, { rows, places });
        const expected = combineExperts(y, place_of, weights, hidden, used);
        for (let i = 0; accumulate === 1 && i < tokens * hidden; i++) {
          expected.values[i]! += UNTOUCHED;
          expected.magnitudes[i]! -= UNTOUCHED;
        }
        expected.values.fill(UNTOUCHED, tokens * hidden);
        expectClose(contract, result.x!, expected, { used });
      },
    ));
});
