import { expect, it } from 'vitest';
import { likeliestParts, logSoftmaxMerge, SAMPLE_PARTS } from '../../src/executor/kernels/index.js';
import { SlotWord } from '../../src/executor/model/slot-layout.js';
import { logSoftmax, mergedTop, rankOf } from './reference/log_softmax_merge.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { fill, Random } from './support/values.js';

onEachTarget('log_softmax_merge', (target) => {
  // That its bits are those of log_softmax_top is held in that kernel's test.
  it.each([3, 70, 700])('gives the log probabilities of a row of %i logits from its parts', async (vocabulary) => {
    const logits = fill('normal', vocabulary, new Random(vocabulary));
    const slot_words = SlotWord.blockTable;
    const slots = new Int32Array(slot_words);
    slots[SlotWord.logprobs] = 1 + 5;
    const one = Int32Array.of(0);
    const given = { biases: new Int32Array(1), entries: 0 };
    const values = { logits, sample_row: one, row_slot: one, slots, slot_words, ...given, top_max: 5, vocabulary };
    const dimensions = { samples: 1, tokens: 1, slot_count: 1 };
    const room = new Int32Array(SAMPLE_PARTS * 5);
    const parts = await target.launch(likeliestParts, { ...values, likeliest: room }, dimensions);
    const output = new Int32Array(13);
    output[0] = 2;
    const likeliest = parts.likeliest as Int32Array;
    const result = await target.launch(logSoftmaxMerge, { ...values, likeliest, output }, dimensions);
    const words = result.output as Int32Array;
    const floats = new Float32Array(words.slice().buffer);
    const { ids, logprobs } = mergedTop(logits, 5);
    expect([...words.subarray(2, 2 + ids.length)]).toEqual(ids);
    expect(words[12]).toBe(rankOf(logits, 2));
    const actual = [floats[1]!, ...floats.subarray(7, 7 + ids.length)];
    expectClose(logSoftmaxMerge, actual, { values: Float64Array.of(logSoftmax(logits)[2]!, ...logprobs) }, {});
  });
});
