import { expect, it } from 'vitest';
import { copyWords } from '../../src/executor/kernels/index.js';
import { copyWords as reference } from './reference/copy_words.js';
import { onEachTarget } from './support/targets.js';
import { size } from './support/values.js';

onEachTarget('copy_words', (target) => {
  it('copies every word, and none behind the last', () =>
    target.check(size(3000), async (count) => {
      const x = Int32Array.from({ length: count }, (_, i) => i * 2654435761 + 1);
      const { y } = await target.launch(copyWords, { x, count });
      expect(y).toEqual(reference(x));
    }));
});
