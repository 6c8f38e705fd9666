import fc from 'fast-check';
import { expect, it } from 'vitest';
import { FILTER_BINS, FILTER_PARTS, FILTER_WORDS } from '../../src/executor/kernels/index.js';
import { binsOf } from './reference/sample_bins.js';
import { randomRows, SampledStep } from './support/sampled-rows.js';
import { onEachTarget } from './support/targets.js';
import { Random, seed, size } from './support/values.js';

/** Probability mass is counted in these parts of the likeliest's. */
const UNIT = 2 ** -40;

onEachTarget('sample_bins', (target) => {
  it('counts tokens in each bin with top_k, and mass without', () =>
    target.check(
      fc.tuple(size(3), size(target.simulated ? 700 : 3000), fc.constantFrom(0.1, 0.7, 2), seed),
      async ([count, vocabulary, kelvin, start]) => {
        const temperature = Math.fround(kelvin);
        const plain = {
          temperature,
          topK: 0,
          typicalP: 1,
          topP: 0.5,
          minP: 0,
          seed: [1, start] as const,
          sampleIndex: 0,
        };
        const step = new SampledStep(randomRows(count, vocabulary, [plain, { ...plain, topK: 3 }], new Random(start)));
        const { bins } = await step.filters(target, await step.best(target));
        step.rows.forEach(({ logits, sampling }, row) => {
          const words = bins.slice((row + 1) * FILTER_WORDS - 2 * FILTER_PARTS * FILTER_BINS, (row + 1) * FILTER_WORDS);
          const left = new BigUint64Array(words.buffer);
          const expected = new Float64Array(FILTER_BINS);
          const isCounted = sampling.topK > 0 && sampling.topK < vocabulary;
          const largest = Math.max(...logits);
          binsOf(logits, sampling).forEach((bin, id) => {
            expected[bin]! += isCounted ? 1 : Math.exp((logits[id]! - largest) / temperature);
          });
          expected.forEach((weight, bin) => {
            let sum = 0n;
            for (let part = 0; part < FILTER_PARTS; part++) sum += left[part * FILTER_BINS + bin]!;
            if (isCounted) expect(Number(sum)).toBe(weight);
            else expect(Math.abs(Number(sum) * UNIT - weight)).toBeLessThanOrEqual(1e-4 * weight + vocabulary * UNIT);
          });
        });
      },
    ));
});
