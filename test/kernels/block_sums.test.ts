import fc from 'fast-check';
import { expect, it } from 'vitest';
import { blockSums as contract, KV_BLOCK_TOKENS } from '../../src/executor/kernels/index.js';
import { blockSums, type RowWords } from './reference/block_sums.js';
import { onEachTarget, type Target } from './support/targets.js';
import { Random, seed, size } from './support/values.js';

const NO_ROWS: RowWords = [0, 0];

/** Parts of blocks in memory of their own, and what the kernel makes of some of their blocks. */
async function sumsOf(
  target: Target,
  parts: readonly Int32Array[],
  counts: readonly number[],
  blocks: Int32Array,
  rows = new Int32Array(blocks.length).fill(KV_BLOCK_TOKENS),
  rowWords: readonly RowWords[] = parts.map(() => NO_ROWS),
) {
  const { native } = target.device;
  const addresses = parts.map((words) => {
    const address = native.allocate(words.byteLength);
    native.write(address, new Uint8Array(words.buffer));
    return address;
  });
  try {
    const table = addresses.flatMap((address, i) => [
      ...[(address % 2 ** 32) | 0, Math.floor(address / 2 ** 32), counts[i]!, counts[i]!],
    ]);
    const tables = { parts: Int32Array.from(table), row_words: Int32Array.from(rowWords.flat()) };
    const values = { blocks, rows, ...tables, part_count: parts.length };
    const { y } = await target.launch(contract, values, { count: blocks.length });
    return y as Int32Array;
  } finally {
    for (const address of addresses) native.release(address);
  }
}

onEachTarget('block_sums', (target) => {
  // The emulator is given the memory of arguments alone, and the table leads to other memory.
  const itReads = target.emulated ? it.skip : it;

  itReads('sums each part of each block that is named', () =>
    target.check(fc.tuple(size(4), size(9000), size(9), seed), async ([partCount, most, blockCount, start]) => {
      const random = new Random(start);
      const counts = Array.from({ length: partCount }, () => 1 + random.below(most));
      const parts = counts.map((count) =>
        Int32Array.from({ length: count * blockCount }, () => random.below(2 ** 32) | 0),
      );
      const blocks = Int32Array.from({ length: 1 + random.below(6) }, () => random.below(blockCount));
      const expected = Array.from(blocks).flatMap((block) =>
        parts.flatMap((words, i) => blockSums(words.slice(block * counts[i]!, (block + 1) * counts[i]!))),
      );
      expect(Array.from(await sumsOf(target, parts, counts, blocks))).toEqual(expected);
    }),
  );

  itReads('sums the first rows of each head, and their scales', () =>
    target.check(fc.tuple(size(3), size(3), size(40), seed), async ([partCount, heads, most, start]) => {
      const random = new Random(start);
      const rowWords = Array.from({ length: partCount }, (): RowWords => [1 + random.below(most), random.below(4)]);
      const counts = rowWords.map(([elements, scales]) => heads * KV_BLOCK_TOKENS * (elements + scales));
      const parts = counts.map((count) => Int32Array.from({ length: count * 3 }, () => random.below(2 ** 32) | 0));
      const blocks = Int32Array.from({ length: 1 + random.below(6) }, () => random.below(3));
      const rows = blocks.map(() => 1 + random.below(KV_BLOCK_TOKENS));
      const expected = Array.from(blocks).flatMap((block, i) =>
        parts.flatMap((words, p) =>
          blockSums(words.slice(block * counts[p]!, (block + 1) * counts[p]!), rows[i]!, rowWords[p]!),
        ),
      );
      expect(Array.from(await sumsOf(target, parts, counts, blocks, rows, rowWords))).toEqual(expected);
    }),
  );

  itReads('differs for each flipped bit, swapped words and a block of zeros', async () => {
    const random = new Random(7);
    const words = Int32Array.from({ length: 96 }, () => random.below(2 ** 32) | 0);
    const changed = Array.from({ length: 96 * 32 }, (_, bit) => {
      const copy = words.slice();
      copy[bit >> 5]! ^= 1 << (bit & 31);
      return copy;
    });
    const swapped = words.slice();
    [swapped[3], swapped[70]] = [words[70]!, words[3]!];
    const all = [words, ...changed, swapped, new Int32Array(96)];
    const memory = Int32Array.from(all.flatMap((block) => Array.from(block)));
    const y = await sumsOf(target, [memory], [96], Int32Array.from(all.keys()));
    const seen = new Set(all.map((_, i) => `${y[2 * i]} ${y[2 * i + 1]}`));
    expect(seen.size).toBe(all.length);
  });
});
