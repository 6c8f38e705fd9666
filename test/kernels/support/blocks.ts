import { type BlockType, blockFormat } from '../../../src/executor/kernels/index.js';
import type { Random } from './values.js';

/** Offsets of f16 numbers in a block. */
const HALVES: Readonly<Record<BlockType, readonly number[]>> = {
  q4_0: [0],
  q4_1: [0, 2],
  q5_0: [0],
  q5_1: [0, 2],
  q8_0: [0],
  q2_k: [80, 82],
  q3_k: [108],
  q4_k: [0, 2],
  q5_k: [0, 2],
  q6_k: [208],
  iq4_nl: [0],
  iq4_xs: [0],
  mxfp4: [],
  ...{ iq3_s: [0], iq3_xxs: [0], iq2_s: [0], iq2_xs: [0], iq2_xxs: [0], iq1_s: [0], iq1_m: [] },
};

/** Blocks of random bytes: every quant, every whole-number scale, and any f16 scale that is finite. */
export function randomBlocks(type: BlockType, count: number, random: Random): Uint8Array {
  const { blockBytes } = blockFormat(type);
  const data = Uint8Array.from({ length: count * blockBytes }, () => random.below(256));
  for (let block = 0; block < count; block++) {
    for (const at of HALVES[type]) {
      const high = block * blockBytes + at + 1;
      // An exponent of all ones is an infinity or NaN: one bit less is not.
      if ((data[high]! & 0x7c) === 0x7c) data[high]! ^= 0x40;
    }
    // Scales of f16's range.
    if (type === 'mxfp4') data[block * blockBytes] = 108 + random.below(37);
    // The f16's uppermost bits are the last byte's.
    if (type === 'iq1_m' && (data[block * blockBytes + 55]! & 0x70) === 0x70) data[block * blockBytes + 55]! ^= 0x40;
  }
  return data;
}

/**
 * Sets the exponents of blocks whose scale is one to each there is, one after the other, subnormal and too large for f32 with it.
 */
export function everyExponent(type: BlockType, data: Uint8Array): Uint8Array {
  if (type === 'mxfp4') for (let block = 0; 17 * block < data.length; block++) data[17 * block] = block;
  return data;
}

/** {@link randomBlocks} whose scales are below 2^-7: their products with activations stay in the range of silu. */
export function smallBlocks(type: BlockType, count: number, random: Random): Uint8Array {
  const { blockBytes } = blockFormat(type);
  const data = randomBlocks(type, count, random);
  for (let block = 0; block < count; block++) {
    for (const at of HALVES[type]) data[block * blockBytes + at + 1]! &= 0xa3;
    if (type === 'mxfp4') data[block * blockBytes] = 108 + random.below(14);
    if (type === 'iq1_m') data[block * blockBytes + 55]! &= 0x8f;
  }
  return data;
}
