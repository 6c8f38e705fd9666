import fc from 'fast-check';
import { expect, it } from 'vitest';
import { SAMPLE_PART_WORDS, SAMPLE_PARTS } from '../../src/executor/kernels/index.js';
import { acceptableDraws } from './reference/sample_draw.js';
import { fromBits } from './support/half.js';
import { randomRows, SampledStep } from './support/sampled-rows.js';
import { onEachTarget } from './support/targets.js';
import { Random, seed, size } from './support/values.js';

onEachTarget('sample_draw', (target) => {
  it('leaves the best of each part with its noise, of rows that are not greedy', () =>
    target.check(
      fc.tuple(size(5), size(target.simulated ? 700 : 3000), fc.constantFrom(0.1, 0.7, 1, 2), seed),
      async ([count, vocabulary, temperature, start]) => {
        const plain = { temperature: Math.fround(temperature), topK: 0, typicalP: 1, topP: 1, minP: 0, sampleIndex: 1 };
        const samplings = [
          { ...plain, seed: [start, 5] as const },
          { ...plain, topK: 1, seed: [1, start] as const },
          { ...plain, temperature: 0, seed: [1, 2] as const },
        ];
        const step = new SampledStep(randomRows(count, vocabulary, samplings, new Random(start)));
        const parts = await step.drawn(target);
        step.rows.forEach(({ logits, sampling, position }, row) => {
          const words = parts.subarray(
            row * SAMPLE_PART_WORDS * SAMPLE_PARTS,
            (row + 1) * SAMPLE_PART_WORDS * SAMPLE_PARTS,
          );
          const values = [...words.subarray(2 * SAMPLE_PARTS, 3 * SAMPLE_PARTS)].map(fromBits);
          if (sampling.temperature === 0) {
            expect(words.subarray(2 * SAMPLE_PARTS).every((word) => word === -7)).toBe(true);
            return;
          }
          const best = values.indexOf(Math.max(...values));
          expect([...acceptableDraws(logits, position, sampling)]).toContain(words[3 * SAMPLE_PARTS + best]);
        });
      },
    ));
});
