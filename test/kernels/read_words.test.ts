import fc from 'fast-check';
import { expect, it } from 'vitest';
import { readWords as contract } from '../../src/executor/kernels/index.js';
import { readWords } from './reference/read_words.js';
import { onEachTarget } from './support/targets.js';
import { Random, seed, size } from './support/values.js';

onEachTarget('read_words', (target) => {
  it('reads every word once', () =>
    target.check(fc.tuple(size(3000), size(1025), seed), async ([count, part, start]) => {
      const random = new Random(start);
      const words = Int32Array.from({ length: count }, () => random.below(2 ** 32) | 0);
      const { y } = await target.launch(contract, { words, count, part }, { parts: Math.ceil(count / part) });
      expect(y).toEqual(readWords(words, part));
    }));
});
