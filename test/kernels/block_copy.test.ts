import fc from 'fast-check';
import { expect, it } from 'vitest';
import { gatherBlocks, scatterBlocks } from '../../src/executor/kernels/index.js';
import { blockOf, scattered } from './reference/block_copy.js';
import { onEachTarget } from './support/targets.js';
import { Random, seed, size } from './support/values.js';

onEachTarget('block_copy', (target) => {
  // The emulator is given the memory of arguments alone, and the table leads to other memory.
  const itMoves = target.emulated ? it.skip : it;

  itMoves('gathers the parts of blocks in their order, and scatters them to these blocks alone', () =>
    target.check(fc.tuple(size(4), size(700), size(9), seed), async ([partCount, most, blockCount, start]) => {
      const random = new Random(start);
      const { native } = target.device;
      const counts = Array.from({ length: partCount }, () => 1 + random.below(most));
      const offsets = counts.map((_, i) => counts.slice(0, i).reduce((sum, count) => sum + count, 0));
      const blockWords = counts.reduce((sum, count) => sum + count, 0);
      const parts = counts.map((count) =>
        Int32Array.from({ length: count * blockCount }, () => random.below(2 ** 32) | 0),
      );
      const blocks = Int32Array.from({ length: blockCount }, (_, i) => i)
        .filter(() => random.below(3) > 0)
        .toReversed();
      if (blocks.length === 0) return;
      const addresses = parts.map((words) => {
        const address = native.allocate(words.byteLength);
        native.write(address, new Uint8Array(words.buffer));
        return address;
      });
      try {
        const rows = addresses.flatMap((address, i) => [
          ...[(address % 2 ** 32) | 0, Math.floor(address / 2 ** 32), counts[i]!, counts[i]!],
        ]);
        const table = { blocks, parts: Int32Array.from(rows), offsets: Int32Array.from(offsets) };
        const sizes = { count: blocks.length, part_count: partCount };
        const { y } = await target.launch(gatherBlocks, { ...table, block_words: blockWords }, sizes);
        expect(Array.from(y as Int32Array)).toEqual(
          Array.from(blocks).flatMap((block) => blockOf(parts, counts, block)),
        );

        const x = Int32Array.from({ length: blocks.length * blockWords }, () => random.below(2 ** 32) | 0);
        await target.launch(scatterBlocks, { ...table, x, block_words: blockWords }, sizes);
        const expected = Array.from(blocks).reduce<readonly Int32Array[]>(
          (held, block, b) => scattered(held, counts, block, x.subarray(b * blockWords, (b + 1) * blockWords)),
          parts,
        );
        for (const [i, words] of expected.entries()) {
          const held = native.read(addresses[i]!, words.byteLength).slice();
          expect(Array.from(new Int32Array(held.buffer))).toEqual(Array.from(words));
        }
      } finally {
        for (const address of addresses) native.release(address);
      }
    }),
  );
});
