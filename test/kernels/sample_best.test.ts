import fc from 'fast-check';
import { expect, it } from 'vitest';
import { SAMPLE_PART_WORDS, SAMPLE_PARTS } from '../../src/executor/kernels/index.js';
import { sampleBest } from './reference/sample_best.js';
import { fromBits } from './support/half.js';
import { randomRows, SampledStep } from './support/sampled-rows.js';
import { onEachTarget } from './support/targets.js';
import { Random, seed, size } from './support/values.js';

const GREEDY = { temperature: 0, topK: 0, typicalP: 1, topP: 1, minP: 0, seed: [1, 2], sampleIndex: 0 } as const;

onEachTarget('sample_best', (target) => {
  it('leaves the largest logit of each part, of the adjusted logits where the slot adjusts them', () =>
    target.check(fc.tuple(size(5), size(target.simulated ? 700 : 3000), seed), async ([count, vocabulary, start]) => {
      const step = new SampledStep(randomRows(count, vocabulary, [GREEDY], new Random(start)));
      // One row with a NaN: in its part, it is what the row is told by.
      const spoiled = Math.abs(start) % step.rows.length;
      const at = Math.abs(start >> 3) % vocabulary;
      const { logits: own, adjusts } = step.rows[spoiled]!;
      own[at] = Number.NaN;
      (adjusts === 'no' ? step.logits : step.adjusted)[spoiled * vocabulary + at] = Number.NaN;
      const parts = await step.best(target);
      const part = Math.ceil(vocabulary / SAMPLE_PARTS);
      step.rows.forEach(({ logits }, row) => {
        const words = parts.subarray(row * SAMPLE_PART_WORDS * SAMPLE_PARTS);
        for (let p = 0; p < SAMPLE_PARTS; p++) {
          const first = Math.min(p * part, vocabulary);
          const { value, index } = sampleBest(logits.subarray(first, first + part));
          const column = value === Number.NEGATIVE_INFINITY ? 0 : index < 0 ? -1 : first + index;
          expect([fromBits(words[p]!), words[SAMPLE_PARTS + p]]).toEqual([value, column]);
        }
      });
    }));
});
