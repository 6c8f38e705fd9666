import { type BlockType, blockFormat, packedRowBytes, Q8_BLOCK } from '../../../src/executor/kernels/index.js';
import { integerBlocks } from './blocks.js';

/** Bits of an element that its own high plane holds, above the low nibble's four. */
const HIGH_BITS: Partial<Record<BlockType, number>> = { q5_0: 1, q5_1: 1, q5_k: 1, q6_k: 2 };

/** A row of the file as `forge/packed.h` lays it out; padding is 0. */
export function repackRow(type: BlockType, row: Uint8Array): Uint8Array {
  const { blockElements, blockBytes } = blockFormat(type);
  const columns = (row.length / blockBytes) * blockElements;
  const blocks = columns / Q8_BLOCK;
  const packed = new Uint8Array(packedRowBytes(type, columns));
  const quants = integerBlocks(type, row);
  const highBits = HIGH_BITS[type] ?? 0;
  for (let i = 0; i < columns; i++) {
    const [b, e] = [Math.floor(i / 32), i % 32];
    const quant = quants[i]!;
    if (type === 'q8_0') {
      packed[(e < 16 ? 0 : blocks * 16) + b * 16 + (e % 16)] = quant;
      continue;
    }
    packed[b * 16 + (e % 16)]! += (quant % 16) * (e < 16 ? 1 : 16);
    const high = Math.floor(quant / 16);
    for (let bit = 0; bit < highBits; bit++) {
      // Q5: bit 8 j + w of 32. Q6: bits 8 j + 2 w and the next of the 32 of each sixteen elements.
      const group = Math.floor(e / 4);
      const at = highBits === 1 ? 8 * (e % 4) + group : 32 * Math.floor(e / 16) + 8 * (e % 4) + 2 * (group % 4) + bit;
      packed[blocks * 16 + b * 4 * highBits + Math.floor(at / 8)]! += (Math.floor(high / 2 ** bit) % 2) * 2 ** (at % 8);
    }
  }
  const quantBytes = type === 'q8_0' ? 32 : 16 + 4 * highBits;
  const plane = blocks * quantBytes;
  const fileBlocks = row.length / blockBytes;
  for (let block = 0; block < fileBlocks; block++) {
    const from = row.subarray(block * blockBytes, (block + 1) * blockBytes);
    if (type === 'q6_k') {
      packed.set(from.subarray(192, 208), plane + 16 * block);
      packed.set(from.subarray(208, 210), plane + 2 * blocks + 2 * block);
    } else {
      const bytes = blockBytes - (quantBytes * blockElements) / Q8_BLOCK;
      packed.set(from.subarray(0, bytes), plane + bytes * block);
    }
  }
  return packed;
}
