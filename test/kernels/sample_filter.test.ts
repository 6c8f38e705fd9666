import fc from 'fast-check';
import { expect, it } from 'vitest';
import { FILTER_WORDS } from '../../src/executor/kernels/index.js';
import { ranking } from './reference/sample.js';
import { keptBy } from './reference/sample_filter.js';
import { bitsOf } from './support/half.js';
import { randomRows, SampledStep } from './support/sampled-rows.js';
import { onEachTarget } from './support/targets.js';
import { Random, seed, size } from './support/values.js';

/** Orders elements as forge/select.h does. */
function rankOf(logit: number, id: number): bigint {
  const bits = BigInt(bitsOf(logit + 0) >>> 0);
  const ordered = bits & 0x80000000n ? ~bits & 0xffffffffn : bits | 0x80000000n;
  return (ordered << 32n) | BigInt(0xffffffff - id);
}

onEachTarget('sample_filter', (target) => {
  it('keeps what top_k and top_p keep', () =>
    target.check(
      fc.tuple(
        size(3),
        size(target.simulated ? 700 : 3000),
        fc.constantFrom(0, 1, 5, 40),
        fc.constantFrom(1, 0.95, 0.5).map(Math.fround),
        seed,
      ),
      async ([count, vocabulary, topK, topP, start]) => {
        fc.pre((topK > 0 && topK < vocabulary) || topP < 1);
        const sampling = {
          temperature: 1,
          topK,
          typicalP: 1,
          topP,
          minP: 0,
          seed: [1, start] as const,
          sampleIndex: 0,
        };
        const step = new SampledStep(randomRows(count, vocabulary, [sampling], new Random(start)));
        const { filtered } = await step.filters(target, await step.best(target));
        step.rows.forEach(({ logits }, row) => {
          const threshold = new BigUint64Array(filtered.slice(row * FILTER_WORDS, row * FILTER_WORDS + 2).buffer)[0]!;
          const order = ranking(logits);
          // Undefined where the reference is within rounding of the edge.
          keptBy(logits, order, sampling).forEach((isKept, id) => {
            if (isKept !== undefined) expect(rankOf(logits[id]!, id) >= threshold).toBe(isKept);
          });
        });
      },
    ));
});
