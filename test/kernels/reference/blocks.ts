import type { BlockType } from '../../../src/executor/kernels/index.js';
import { fromHalf } from '../support/half.js';
import { type GridType, gridElement } from './grids.js';

/** Weights in float64: element i is products[i] - minimums[i]. */
export interface Weights {
  readonly products: Float64Array;
  readonly minimums: Float64Array;
}

/** Element i of one block as (scale · quant, minimum). */
type Element = (block: DataView, i: number) => readonly [product: number, minimum: number];

const half = (block: DataView, at: number): number => fromHalf(block.getUint16(at, true));
/** Bits `from` .. `from + count - 1` of a byte. */
const bits = (byte: number, from: number, count: number): number => (byte >>> from) & ((1 << count) - 1);
/** Nibble i of sixteen bytes: the low ones first, then the high ones. */
const splitNibble = (block: DataView, at: number, i: number): number =>
  bits(block.getUint8(at + (i % 16)), i < 16 ? 0 : 4, 4);
const bit = (block: DataView, at: number, i: number): number => bits(block.getUint8(at + Math.floor(i / 8)), i % 8, 1);

/** The 6-bit scale and minimum of sub-block s of Q4_K and Q5_K, from twelve bytes. */
function sixBits(block: DataView, s: number): readonly [scale: number, minimum: number] {
  const byte = (i: number): number => block.getUint8(4 + i);
  if (s < 4) return [bits(byte(s), 0, 6), bits(byte(s + 4), 0, 6)];
  return [bits(byte(s + 4), 0, 4) + 16 * bits(byte(s - 4), 6, 2), bits(byte(s + 4), 4, 4) + 16 * bits(byte(s), 6, 2)];
}
/** Sub-blocks 2c and 2c + 1 are the low and the high nibbles of 32 bytes. */
const kNibble = (block: DataView, at: number, i: number): number =>
  bits(block.getUint8(at + 32 * Math.floor(i / 64) + (i % 32)), i % 64 < 32 ? 0 : 4, 4);

/** Two bits of 64 bytes: of each half of 128 elements, quarter q is bits 2q and the next of 32 bytes. */
const kPair = (block: DataView, at: number, i: number): number =>
  bits(block.getUint8(at + 32 * Math.floor(i / 128) + (i % 32)), 2 * Math.floor((i % 128) / 32), 2);

/** The 6-bit scale of sixteen elements of Q3_K: low nibbles in eight bytes, top bits in the four behind them. */
const q3Scale = (block: DataView, s: number): number =>
  bits(block.getUint8(96 + (s % 8)), s < 8 ? 0 : 4, 4) +
  16 * bits(block.getUint8(104 + (s % 4)), 2 * Math.floor(s / 4), 2) -
  32;

/** The 6-bit scale of sub-block s of IQ4_XS. */
const xsScale = (block: DataView, s: number): number =>
  bits(block.getUint8(4 + Math.floor(s / 2)), 4 * (s % 2), 4) +
  16 * bits(block.getUint8(2 + Math.floor(s / 4)), 2 * (s % 4), 2) -
  32;

/** Values of the nibbles of IQ4_NL and IQ4_XS (`kvalues_iq4nl` of ggml-common.h). */
const LEVELS = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/** Those of MXFP4: twice the numbers of E2M1, a sign and then 0, 0.5, 1, 1.5, 2, 3, 4, 6. */
const doubledE2M1 = (nibble: number): number => [0, 1, 2, 3, 4, 6, 8, 12][nibble % 8]! * (nibble < 8 ? 1 : -1);

function kElement(block: DataView, i: number, quant: number): readonly [product: number, minimum: number] {
  const [scale, minimum] = sixBits(block, Math.floor(i / 32));
  return [half(block, 0) * scale * quant, half(block, 2) * minimum];
}

/** Layout of the formats that name elements by tables. */
const ofGrid = (type: GridType, bytes: number) => ({
  elements: 256,
  bytes,
  element: (b: DataView, i: number) => [gridElement(type, b, i).product, 0] as const,
});
/** As it is stored: the place of a level, the code and 8 more where the flag is set. */
const place = (type: GridType) => (b: DataView, i: number) => {
  const { code, flag } = gridElement(type, b, i);
  return code + (flag ? 8 : 0);
};

const FORMATS: Readonly<Record<BlockType, { elements: number; bytes: number; element: Element }>> = {
  q8_0: { elements: 32, bytes: 34, element: (b, i) => [half(b, 0) * b.getInt8(2 + i), 0] },
  q4_0: { elements: 32, bytes: 18, element: (b, i) => [half(b, 0) * (splitNibble(b, 2, i) - 8), 0] },
  q4_1: { elements: 32, bytes: 20, element: (b, i) => [half(b, 0) * splitNibble(b, 4, i), -half(b, 2)] },
  q5_0: {
    elements: 32,
    bytes: 22,
    element: (b, i) => [half(b, 0) * (splitNibble(b, 6, i) + 16 * bit(b, 2, i) - 16), 0],
  },
  q5_1: {
    elements: 32,
    bytes: 24,
    element: (b, i) => [half(b, 0) * (splitNibble(b, 8, i) + 16 * bit(b, 4, i)), -half(b, 2)],
  },
  q2_k: {
    elements: 256,
    bytes: 84,
    element: (b, i) => {
      const both = b.getUint8(Math.floor(i / 16));
      return [half(b, 80) * bits(both, 0, 4) * kPair(b, 16, i), half(b, 82) * bits(both, 4, 4)];
    },
  },
  q3_k: {
    elements: 256,
    bytes: 110,
    element: (b, i) => [half(b, 108) * q3Scale(b, Math.floor(i / 16)) * (INTEGERS.q3_k(b, i) - 4), 0],
  },
  q4_k: { elements: 256, bytes: 144, element: (b, i) => kElement(b, i, kNibble(b, 16, i)) },
  q5_k: {
    elements: 256,
    bytes: 176,
    element: (b, i) => kElement(b, i, kNibble(b, 48, i) + 16 * bits(b.getUint8(16 + (i % 32)), Math.floor(i / 32), 1)),
  },
  q6_k: {
    elements: 256,
    bytes: 210,
    element: (b, i) => {
      const [part, quarter] = [Math.floor(i / 128), Math.floor((i % 128) / 32)];
      const low = bits(b.getUint8(64 * part + (i % 64)), quarter < 2 ? 0 : 4, 4);
      const high = bits(b.getUint8(128 + 32 * part + (i % 32)), 2 * quarter, 2);
      return [half(b, 208) * b.getInt8(192 + Math.floor(i / 16)) * (low + 16 * high - 32), 0];
    },
  },
  iq4_nl: { elements: 32, bytes: 18, element: (b, i) => [half(b, 0) * LEVELS[splitNibble(b, 2, i)]!, 0] },
  iq4_xs: {
    elements: 256,
    bytes: 136,
    element: (b, i) => [half(b, 0) * xsScale(b, Math.floor(i / 32)) * LEVELS[INTEGERS.iq4_xs(b, i)]!, 0],
  },
  mxfp4: {
    elements: 32,
    bytes: 17,
    // Zero's sign is not a number's.
    element: (b, i) => [2 ** (b.getUint8(0) - 128) * doubledE2M1(splitNibble(b, 1, i)) + 0, 0],
  },
  iq3_s: ofGrid('iq3_s', 110),
  iq3_xxs: ofGrid('iq3_xxs', 98),
  iq2_s: ofGrid('iq2_s', 82),
  iq2_xs: ofGrid('iq2_xs', 74),
  iq2_xxs: ofGrid('iq2_xxs', 66),
  iq1_s: ofGrid('iq1_s', 50),
  iq1_m: ofGrid('iq1_m', 56),
};

/** Element i of a block as it is stored. */
const INTEGERS: Readonly<Record<BlockType, (block: DataView, i: number) => number>> = {
  q8_0: (b, i) => b.getUint8(2 + i),
  q4_0: (b, i) => splitNibble(b, 2, i),
  q4_1: (b, i) => splitNibble(b, 4, i),
  q5_0: (b, i) => splitNibble(b, 6, i) + 16 * bit(b, 2, i),
  q5_1: (b, i) => splitNibble(b, 8, i) + 16 * bit(b, 4, i),
  q2_k: (b, i) => kPair(b, 16, i),
  q3_k: (b, i) => kPair(b, 32, i) + 4 * bits(b.getUint8(i % 32), Math.floor(i / 32), 1),
  q4_k: (b, i) => kNibble(b, 16, i),
  q5_k: (b, i) => kNibble(b, 48, i) + 16 * bits(b.getUint8(16 + (i % 32)), Math.floor(i / 32), 1),
  q6_k: (b, i) => {
    const [part, quarter] = [Math.floor(i / 128), Math.floor((i % 128) / 32)];
    const low = bits(b.getUint8(64 * part + (i % 64)), quarter < 2 ? 0 : 4, 4);
    return low + 16 * bits(b.getUint8(128 + 32 * part + (i % 32)), 2 * quarter, 2);
  },
  iq4_nl: (b, i) => splitNibble(b, 2, i),
  iq4_xs: (b, i) => splitNibble(b, 8 + 16 * Math.floor(i / 32), i % 32),
  mxfp4: (b, i) => splitNibble(b, 1, i),
  iq3_s: place('iq3_s'),
  iq3_xxs: place('iq3_xxs'),
  iq2_s: place('iq2_s'),
  iq2_xs: place('iq2_xs'),
  iq2_xxs: place('iq2_xxs'),
  iq1_s: place('iq1_s'),
  iq1_m: place('iq1_m'),
};

/** Elements of blocks, by the format's definition (ggml-quants.c, `dequantize_row_*`). */
export function readBlocks(type: BlockType, data: Uint8Array): Weights {
  const { elements, bytes, element } = FORMATS[type];
  const count = (data.length / bytes) * elements;
  const weights = { products: new Float64Array(count), minimums: new Float64Array(count) };
  for (let first = 0; first < count; first += elements) {
    const block = new DataView(data.buffer, data.byteOffset + (first / elements) * bytes, bytes);
    for (let i = 0; i < elements; i++) {
      const [product, minimum] = element(block, i);
      weights.products[first + i] = product;
      weights.minimums[first + i] = minimum;
    }
  }
  return weights;
}

/** The quants of blocks as they are stored: before a zero point is subtracted, int8 as two's complement. */
export function integerBlocks(type: BlockType, data: Uint8Array): Uint8Array {
  const { elements, bytes } = FORMATS[type];
  const stored = INTEGERS[type];
  const quants = new Uint8Array((data.length / bytes) * elements);
  for (let i = 0; i < quants.length; i++) {
    quants[i] = stored(
      new DataView(data.buffer, data.byteOffset + Math.floor(i / elements) * bytes, bytes),
      i % elements,
    );
  }
  return quants;
}
