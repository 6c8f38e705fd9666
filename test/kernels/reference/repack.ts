import { blockFormat, type PackedType, packedRowBytes, Q8_BLOCK } from '../../../src/executor/kernels/index.js';
import { integerBlocks } from './blocks.js';

/** Bits of an element in each plane of quants, the lowest first. */
const PLANES: Readonly<Record<PackedType, readonly number[]>> = {
  ...{ q4_0: [4], q4_1: [4], q4_k: [4], iq4_nl: [4], iq4_xs: [4], mxfp4: [4] },
  ...{ q5_0: [4, 1], q5_1: [4, 1], q5_k: [4, 1], q6_k: [4, 2] },
  ...{ q2_k: [2], q3_k: [2, 1], q8_0: [8] },
};

/** Position of the scales in blocks of halves with their own, and of what super-blocks share: `[from, bytes]` of each. */
const TWO_SCALES: Partial<Record<PackedType, readonly (readonly [number, number])[]>> = {
  q2_k: [
    [0, 16],
    [80, 4],
  ],
  q3_k: [
    [96, 12],
    [108, 2],
  ],
  q6_k: [
    [192, 16],
    [208, 2],
  ],
};

/** Position of the lowest of `bits` bits of element e of block b, in bits from the start of a plane of `blocks` blocks. */
function placeOf(bits: number, b: number, e: number, blocks: number): number {
  if (bits === 8) return 8 * ((e < 16 ? 0 : 16 * blocks) + 16 * b + (e % 16));
  if (bits === 4) return 8 * (16 * b + (e % 16)) + (e < 16 ? 0 : 4);
  const group = Math.floor(e / 4);
  if (bits === 2) return 64 * b + 32 * Math.floor(e / 16) + 8 * (e % 4) + 2 * (group % 4);
  return 32 * b + 8 * (e % 4) + group;
}

/** A row of the file as `forge/packed.h` lays it out; padding is 0. */
export function repackRow(type: PackedType, row: Uint8Array): Uint8Array {
  const { blockElements, blockBytes } = blockFormat(type);
  const columns = (row.length / blockBytes) * blockElements;
  const blocks = columns / Q8_BLOCK;
  const packed = new Uint8Array(packedRowBytes(type, columns));
  const quants = integerBlocks(type, row);
  let [plane, shift] = [0, 0];
  for (const bits of PLANES[type]) {
    for (let i = 0; i < columns; i++) {
      const part = Math.floor(quants[i]! / 2 ** shift) % 2 ** bits;
      const at = placeOf(bits, Math.floor(i / 32), i % 32, blocks);
      packed[plane + Math.floor(at / 8)]! += part * 2 ** (at % 8);
    }
    plane += blocks * 4 * bits;
    shift += bits;
  }
  const before = blockBytes - (blockElements / 8) * shift;
  for (const [from, bytes] of TWO_SCALES[type] ?? [[0, before] as const]) {
    for (let block = 0; block < row.length / blockBytes; block++) {
      packed.set(row.subarray(block * blockBytes + from, block * blockBytes + from + bytes), plane + bytes * block);
    }
    plane += (row.length / blockBytes) * bytes;
  }
  return packed;
}
