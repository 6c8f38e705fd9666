import fc from 'fast-check';
import { expect, it } from 'vitest';
import { likeliestParts, SAMPLE_PARTS } from '../../src/executor/kernels/index.js';
import { SlotWord } from '../../src/executor/model/slot-layout.js';
import { likeliestOfParts } from './reference/likeliest_parts.js';
import { onEachTarget } from './support/targets.js';
import { fill, Random, seed, size } from './support/values.js';

onEachTarget('likeliest_parts', (target) => {
  it('leaves the likeliest tokens of each part', () =>
    target.check(
      fc.tuple(size(target.simulated ? 700 : 3000), fc.integer({ min: 1, max: 20 }), seed),
      async ([vocabulary, wanted, start]) => {
        const logits = fill('normal', vocabulary, new Random(start));
        const slot_words = SlotWord.blockTable;
        const slots = new Int32Array(slot_words);
        slots[SlotWord.logprobs] = wanted + 1;
        const likeliest = new Int32Array(SAMPLE_PARTS * 20).fill(-9);
        const one = Int32Array.of(0);
        const result = await target.launch(
          likeliestParts,
          { logits, sample_row: one, row_slot: one, slots, likeliest, slot_words, top_max: 20, vocabulary },
          { samples: 1, tokens: 1, slot_count: 1 },
        );
        likeliestOfParts(logits, SAMPLE_PARTS, wanted).forEach((ids, part) => {
          expect([...(result.likeliest as Int32Array).subarray(20 * part, 20 * part + ids.length)]).toEqual(ids);
        });
      },
    ));
});
