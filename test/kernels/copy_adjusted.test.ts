import fc from 'fast-check';
import { expect, it } from 'vitest';
import { copyAdjusted } from './reference/copy_adjusted.js';
import { randomRows, SampledStep } from './support/sampled-rows.js';
import { onEachTarget } from './support/targets.js';
import { Random, seed, size } from './support/values.js';

const GREEDY = { temperature: 0, topK: 0, typicalP: 1, topP: 1, minP: 0, seed: [1, 2], sampleIndex: 0 } as const;

onEachTarget('copy_adjusted', (target) => {
  it('copies the rows whose slot has penalties or biases, and no other', () =>
    target.check(fc.tuple(size(5), size(target.simulated ? 700 : 3000), seed), async ([count, vocabulary, start]) => {
      const step = new SampledStep(randomRows(count, vocabulary, [GREEDY], new Random(start)));
      const copied = await step.copied(target);
      step.rows.forEach(({ adjusts }, row) => {
        const range = [row * vocabulary, (row + 1) * vocabulary] as const;
        const before = new Float32Array(vocabulary).fill(-1);
        const expected = copyAdjusted(step.logits.slice(...range), before, adjusts !== 'no');
        expect(copied.slice(...range)).toEqual(expected);
      });
    }));
});
