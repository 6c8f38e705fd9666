import fc from 'fast-check';
import { expect, it } from 'vitest';
import { slotWrite as contract } from '../../src/executor/kernels/index.js';
import { slotWrite } from './reference/slot_write.js';
import { onEachTarget } from './support/targets.js';
import { Random, seed, size } from './support/values.js';

onEachTarget('slot_write', (target) => {
  it('writes the pairs that the count names and nothing else', () =>
    target.check(
      fc.tuple(fc.integer({ min: 1, max: 9 }), size(80), size(600), fc.double({ min: 0, max: 1, noNaN: true }), seed),
      async ([slotCount, slotWords, wanted, share, start]) => {
        const random = new Random(start);
        const slots = Int32Array.from({ length: slotCount * slotWords }, () => random.below(1000));
        const words = random.permutation(slots.length).slice(0, wanted);
        const writes = Int32Array.from(words.flatMap((word) => [word, random.below(2 ** 31)]));
        const count = Math.floor(words.length * share);
        const result = await target.launch(
          contract,
          { slots, writes, count: Int32Array.of(count) },
          { slot_count: slotCount, slot_words: slotWords, writes: words.length },
        );
        expect(result.slots).toEqual(slotWrite(slots, writes, count));
      },
    ));
});
