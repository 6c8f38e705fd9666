import fc from 'fast-check';
import { expect, it } from 'vitest';
import { blockSums as contract } from '../../src/executor/kernels/index.js';
import { blockSums } from './reference/block_sums.js';
import { onEachTarget, type Target } from './support/targets.js';
import { Random, seed, size } from './support/values.js';

/** Parts of blocks in memory of their own, and what the kernel makes of some of their blocks. */
async function sumsOf(target: Target, parts: readonly Int32Array[], counts: readonly number[], blocks: Int32Array) {
  const { native } = target.device;
  const addresses = parts.map((words) => {
    const address = native.allocate(words.byteLength);
    native.write(address, new Uint8Array(words.buffer));
    return address;
  });
  try {
    const rows = addresses.flatMap((address, i) => [
      ...[(address % 2 ** 32) | 0, Math.floor(address / 2 ** 32), counts[i]!, counts[i]!],
    ]);
    const values = { blocks, parts: Int32Array.from(rows), part_count: parts.length };
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
    target.check(fc.tuple(size(4), size(700), size(9), seed), async ([partCount, most, blockCount, start]) => {
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
