import { expect, it } from 'vitest';
import { COPY_CHUNK, copyChunks } from '../../src/executor/kernels/index.js';
import { copyChunks as reference } from './reference/copy_chunks.js';
import { onEachTarget } from './support/targets.js';

onEachTarget('copy_chunks', (target) => {
  it('copies every word, in one chunk and in several', async () => {
    for (const count of [1, COPY_CHUNK - 1, COPY_CHUNK, COPY_CHUNK + 1, 2 * COPY_CHUNK + 17]) {
      const x = Int32Array.from({ length: count }, (_, i) => i * 2654435761 + 1);
      const { y } = await target.launch(copyChunks, { x, count });
      const expected = reference(x);
      expect([y?.length, y?.every((word, i) => word === expected[i])]).toEqual([count, true]);
    }
  });
});
