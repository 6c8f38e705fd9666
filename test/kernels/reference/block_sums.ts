import { KV_BLOCK_TOKENS } from '../../../src/executor/kernels/index.js';

/** Words of a row of one head: its elements, and its scales, which are behind all rows' elements. */
export type RowWords = readonly [elements: number, scales: number];

/** The two checksums of the first rows of a part of a block. */
export function blockSums(
  words: Int32Array,
  rows = KV_BLOCK_TOKENS,
  [elements, scales]: RowWords = [0, 0],
): readonly [number, number] {
  let [first, second] = [0, 0];
  words.forEach((word, index) => {
    const inHead = index % (KV_BLOCK_TOKENS * (elements + scales));
    const behind = inHead - KV_BLOCK_TOKENS * elements;
    const row = Math.floor(behind < 0 ? inHead / elements : behind / scales);
    if (rows < KV_BLOCK_TOKENS && row >= rows) return;
    let mixed = Math.imul(word ^ Math.imul(index, 0x9e3779b1), 0x85ebca6b);
    mixed ^= mixed >>> 15;
    first = (first + mixed) | 0;
    mixed = Math.imul(mixed, 0xc2b2ae35);
    mixed ^= mixed >>> 13;
    second = (second + mixed) | 0;
  });
  return [first, second];
}
