import fc from 'fast-check';
import { expect, it } from 'vitest';
import { FILTER_PARTS, FILTER_WORDS, PART_CANDIDATES } from '../../src/executor/kernels/index.js';
import { topKCandidates } from './reference/sample_candidates.js';
import { randomRows, SampledStep } from './support/sampled-rows.js';
import { onEachTarget } from './support/targets.js';
import { Random, seed, size } from './support/values.js';

/** Offsets of counts among the words that filtering leaves. */
const COUNTS = 10;

onEachTarget('sample_candidates', (target) => {
  it('leaves the tokens among which the k-th largest lies', () =>
    target.check(
      fc.tuple(size(3), size(target.simulated ? 700 : 3000), fc.constantFrom(1, 5, 40, 400), seed),
      async ([count, vocabulary, topK, start]) => {
        fc.pre(topK < vocabulary);
        const sampling = {
          temperature: 1,
          topK,
          typicalP: 1,
          topP: 1,
          minP: 0,
          seed: [1, start] as const,
          sampleIndex: 0,
        };
        const step = new SampledStep(randomRows(count, vocabulary, [sampling], new Random(start)));
        const { candidates } = await step.filters(target, await step.best(target));
        step.rows.forEach(({ logits }, row) => {
          const words = candidates.subarray(row * FILTER_WORDS, (row + 1) * FILTER_WORDS);
          const ids = Array.from({ length: FILTER_PARTS }, (_, part) => {
            const at = COUNTS + FILTER_PARTS + part * PART_CANDIDATES;
            return [...words.subarray(at, at + words[COUNTS + part]!)];
          }).flat();
          expect(ids.sort((a, b) => a - b)).toEqual(topKCandidates(logits, sampling));
        });
      },
    ));
});
