import { randomFillSync } from 'node:crypto';
import { TENSOR_TYPES, type TensorTypeName, tensorBytes } from '../../lib/gguf/tensor-types.js';

/** Bytes of random blocks made for each type; a larger tensor is pieces of them from random places. */
const POOL_BYTES = 8 << 20;

/** A source of random bytes; a seeded one makes the same file again. */
export type FillRandom = (bytes: Uint8Array) => void;

/** Random bytes from the operating system. */
export const systemRandom: FillRandom = (bytes) => {
  randomFillSync(bytes);
};

/**
 * Random weights with mean 0 and standard deviation about 1 / sqrt(row length), made as the bytes of their type: quants are
 * random, scales are set. Nothing is quantized, so files are made as fast as the disk takes them.
 */
export class RandomWeights {
  private readonly pools = new Map<string, Uint8Array>();

  constructor(private readonly fill: FillRandom = systemRandom) {}

  /** The bytes of a tensor, in pieces. @param dims innermost first */
  *bytes(type: TensorTypeName, dims: readonly number[]): Generator<Uint8Array> {
    const { blockBytes } = TENSOR_TYPES[type];
    const pool = this.pool(type, dims[0] ?? 1);
    const start = new Uint32Array(1);
    for (let left = tensorBytes(type, dims); left > 0; ) {
      this.fill(new Uint8Array(start.buffer));
      const from = (start[0]! % (pool.length / blockBytes / 2)) * blockBytes;
      const piece = pool.subarray(from, from + Math.min(left, pool.length / 2));
      left -= piece.length;
      yield piece;
    }
  }

  private pool(type: TensorTypeName, columns: number): Uint8Array {
    const key = `${type} ${columns}`;
    let pool = this.pools.get(key);
    if (pool === undefined) {
      const { blockBytes } = TENSOR_TYPES[type];
      const blocks = Math.floor(POOL_BYTES / blockBytes / 2) * 2;
      pool = new Uint8Array(blocks * blockBytes);
      this.fill(pool);
      const set = BLOCK_SETTERS[type];
      if (set === undefined) throw new RangeError(`no random weights of type ${type}`);
      const view = new DataView(pool.buffer);
      for (let block = 0; block < blocks; block++) set(view, block * blockBytes, 1 / Math.sqrt(columns));
      this.pools.set(key, pool);
    }
    return pool;
  }
}

/** Makes one block of random bytes a block of weights of the given standard deviation. */
type BlockSetter = (view: DataView, at: number, deviation: number) => void;

/** Standard deviation of n equally likely whole numbers. */
const spread = (n: number): number => Math.sqrt((n * n - 1) / 12);

/** A scale at the block's start, and, for formats with one, the minimum that centres the quants behind it. */
const simple =
  (levels: number, hasMinimum: boolean, quantSpread = spread(levels)): BlockSetter =>
  (view, at, deviation) => {
    const scale = deviation / quantSpread;
    view.setUint16(at, halfBits(scale), true);
    if (hasMinimum) view.setUint16(at + 2, halfBits((scale * (levels - 1)) / 2) | 0x8000, true);
  };

/** Six-bit scales from 32 to 63, each minimum the same number, and the two f16 factors that centre the quants. */
const kBlock =
  (levels: number): BlockSetter =>
  (view, at, deviation) => {
    const scale = deviation / spread(levels) / 48;
    view.setUint16(at, halfBits(scale), true);
    view.setUint16(at + 2, halfBits((scale * (levels - 1)) / 2), true);
    for (let i = 0; i < 4; i++) {
      const first = 32 | (view.getUint8(at + 4 + i) & 31);
      const last = 32 | (view.getUint8(at + 8 + i) & 31);
      // The scales of sub-blocks i and i + 4, then their minimums: see packed_scale of kernels/forge/blocks.h.
      view.setUint8(at + 4 + i, first | ((last >> 4) << 6));
      view.setUint8(at + 8 + i, first | ((last >> 4) << 6));
      view.setUint8(at + 12 + i, (last & 15) | ((last & 15) << 4));
    }
  };

const sixBits: BlockSetter = (view, at, deviation) => {
  for (let i = 0; i < 16; i++) view.setInt8(at + 192 + i, 64 | (view.getUint8(at + 192 + i) & 63));
  view.setUint16(at + 208, halfBits(deviation / spread(64) / 96), true);
};

/** Four-bit scales from 8 to 15, each minimum the same number, and the two f16 factors that centre the quants. */
const twoBits: BlockSetter = (view, at, deviation) => {
  for (let i = 0; i < 16; i++) view.setUint8(at + i, 0x11 * (8 | (view.getUint8(at + i) & 7)));
  const scale = deviation / spread(4) / 11.7;
  view.setUint16(at + 80, halfBits(scale), true);
  view.setUint16(at + 82, halfBits(scale * 1.5), true);
};

/**
 * Six-bit scales whose top two bits are alike: 16 to 31, or as much below zero, which centres the levels. `tops` says where
 * the bytes of these bits are, `factor` where what scales are multiplied by.
 */
const signedScales =
  (tops: readonly number[], factor: number, quantSpread: number): BlockSetter =>
  (view, at, deviation) => {
    for (const i of tops) view.setUint8(at + i, 3 * (view.getUint8(at + i) & 0x55));
    view.setUint16(at + factor, halfBits(deviation / quantSpread / 24), true);
  };

/** Standard deviation of the levels of IQ4_NL and IQ4_XS (kernels/forge/levels.h), equally likely. */
const LEVELS_SPREAD = 67.2;
/** The same of MXFP4. */
const MXFP4_SPREAD = 5.85;

/** One number, uniform with the given deviation, from the random bytes that are there. */
const uniform = (view: DataView, at: number, deviation: number): number =>
  (view.getUint16(at, true) / 32_768 - 1) * deviation * Math.sqrt(3);

/** An exponent in the first byte: of two that are neighbours, each as often as the deviation over all blocks demands. */
const exponent =
  (levelsSpread: number): BlockSetter =>
  (view, at, deviation) => {
    const exact = Math.log2(deviation / levelsSpread) + 128;
    const share = (4 ** (exact - Math.floor(exact)) - 1) / 3;
    view.setUint8(at, Math.floor(exact) + (view.getUint8(at) < 256 * share ? 1 : 0));
  };

/** Formats of tables: an f16 by which random indices and scales, both as they are, get the deviation. `rms` is of both together. */
const grid =
  (rms: number): BlockSetter =>
  (view, at, deviation) =>
    view.setUint16(at, halfBits(deviation / rms), true);

/** The same where the f16 lies in the uppermost nibbles of the last four words. */
const gridOfNibbles =
  (rms: number): BlockSetter =>
  (view, at, deviation) => {
    const bits = halfBits(deviation / rms);
    for (let w = 0; w < 4; w++) {
      const low = view.getUint16(at + 48 + 2 * w, true) & 0xfff;
      view.setUint16(at + 48 + 2 * w, low | (((bits >> (4 * w)) & 15) << 12), true);
    }
  };

/** Root mean square of the odd numbers below 32, and below 16. */
const [ODD_BELOW_32, ODD_BELOW_16] = [18.47, 9.22];

const BLOCK_SETTERS: Partial<Record<TensorTypeName, BlockSetter>> = {
  F32: (view, at, deviation) => view.setFloat32(at, uniform(view, at, deviation), true),
  F16: (view, at, deviation) => view.setUint16(at, halfBits(uniform(view, at, deviation)), true),
  BF16: (view, at, deviation) => {
    float[0] = uniform(view, at, deviation);
    view.setUint16(at, floatBits[0]! >>> 16, true);
  },
  Q8_0: simple(256, false),
  Q4_0: simple(16, false),
  Q4_1: simple(16, true),
  Q5_0: simple(32, false),
  Q5_1: simple(32, true),
  Q2_K: twoBits,
  Q3_K: signedScales([104, 105, 106, 107], 108, spread(8)),
  Q4_K: kBlock(16),
  Q5_K: kBlock(32),
  Q6_K: sixBits,
  IQ4_NL: simple(16, false, LEVELS_SPREAD),
  IQ4_XS: signedScales([2, 3], 0, LEVELS_SPREAD),
  MXFP4: exponent(MXFP4_SPREAD),
  // Each table's magnitudes are used alike.
  IQ3_S: grid(7.59 * ODD_BELOW_32),
  IQ3_XXS: grid((30.85 / 4) * ODD_BELOW_32),
  IQ2_S: grid((24.43 / 8) * ODD_BELOW_32),
  IQ2_XS: grid((24.22 / 8) * ODD_BELOW_32),
  IQ2_XXS: grid((23.12 / 8) * ODD_BELOW_32),
  IQ1_S: grid((6.25 / 8) * ODD_BELOW_16),
  IQ1_M: gridOfNibbles((6.25 / 8) * ODD_BELOW_16),
};

const float = new Float32Array(1);
const floatBits = new Uint32Array(float.buffer);

/** f16 bits of a number that is not large, rounded towards zero. */
function halfBits(value: number): number {
  float[0] = value;
  const bits = floatBits[0]!;
  const exponent = ((bits >>> 23) & 255) - 127 + 15;
  const sign = (bits >>> 16) & 0x8000;
  if (exponent > 0) return sign | (exponent << 10) | ((bits >>> 13) & 1023);
  return exponent < -10 ? sign : sign | (((bits & 0x7fffff) | 0x800000) >>> (14 - exponent));
}
