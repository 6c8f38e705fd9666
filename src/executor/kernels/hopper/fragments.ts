import { aligned, defineKernel, i32, inout, input, type KernelContract, variants } from '../../device/contract.js';
import { exact, roundings } from '../../device/tolerance.js';
import { BLOCK_TYPES, type BlockType, blockFormat, isBlockType, TILE_TYPES, type TileType } from '../formats.js';

/** Elements of a chunk of weights in fragments and of activations in columns, and rows of a tile of weights. */
export const FRAGMENT_CHUNK = 64;
export const FRAGMENT_TILE_ROWS = 64;

/** Layout of weights for Hopper's matrix units: `kernels/forge/hopper/fragments.h`. */
export const FRAGMENT_FORMATS = ['f16', 'bf16', 'q2', 'q3', 'q4', 'q5', 'q6', 'q8', 'iq4'] as const;
export type FragmentFormat = (typeof FRAGMENT_FORMATS)[number];

/** Types of weights that become fragments. */
export type FragmentType = TileType | BlockType;

/** Bytes of sixteen rows of a chunk. */
export const UNIT_BYTES: Readonly<Record<FragmentFormat, number>> = {
  f16: 2048,
  bf16: 2048,
  q2: 512,
  q3: 512,
  q4: 640,
  q5: 768,
  q6: 896,
  q8: 1088,
  iq4: 576,
};

/** Those without a form of their own are unpacked to f16 when they are loaded. */
const FORMATS: Readonly<Record<BlockType, FragmentFormat>> = {
  q2_k: 'q2',
  q3_k: 'q3',
  q4_0: 'q4',
  q4_1: 'q4',
  q4_k: 'q4',
  q5_0: 'q5',
  q5_1: 'q5',
  q5_k: 'q5',
  q6_k: 'q6',
  q8_0: 'q8',
  iq4_nl: 'iq4',
  iq4_xs: 'iq4',
  mxfp4: 'f16',
  iq3_s: 'f16',
  iq3_xxs: 'f16',
  iq2_s: 'f16',
  iq2_xs: 'f16',
  iq2_xxs: 'f16',
  iq1_s: 'f16',
  iq1_m: 'f16',
};

export function fragmentFormat(type: FragmentType): FragmentFormat {
  return isBlockType(type) ? FORMATS[type] : type;
}

/** Element type of what is multiplied with such weights. */
export const fragmentInput = (format: FragmentFormat): TileType => (format === 'bf16' ? 'bf16' : 'f16');

export const chunksOf = (columns: number): number => Math.ceil(columns / FRAGMENT_CHUNK);
export const tilesOf = (rows: number): number => Math.ceil(rows / FRAGMENT_TILE_ROWS);

/** Bytes of a tile and chunk, as contracts' shapes have them. */
export const tileBytes = (format: FragmentFormat): number => (FRAGMENT_TILE_ROWS / 16) * UNIT_BYTES[format];

/** Bytes of a matrix in fragments. */
export function fragmentBytes(type: FragmentType, rows: number, columns: number): number {
  return tilesOf(rows) * chunksOf(columns) * tileBytes(fragmentFormat(type));
}

/** The argument that weights are. Dimension `chunks`: of a row. */
export const fragmentWeight = <const D extends readonly string[]>(format: FragmentFormat, ...outer: D) =>
  aligned(128, input('weight', 'u8', ...outer, 'chunks', `${tileBytes(format)}`));

/** Weights of two to eight bits are rounded to f16 as they are unpacked: 2⁻¹¹ of each, or 2⁻²⁵ · 64 of the smallest. */
export const fragmentRoundings = (format: FragmentFormat) => {
  const isRounded = format !== 'f16' && format !== 'bf16';
  return roundings(
    isRounded
      ? '(in / 16 + 12 + 3 · 2¹³) · 2⁻²⁴ · (sum |scale · quant · x| + sum |offset · x| + |y|): scale, offset and weight are ' +
          'rounded to f16; else as for 16-bit weights'
      : '(in / 16 + 12) · 2⁻²⁴ · (sum |weight · x| + |y|): eight sums of in / 8 terms in order, a product of tiles adds in the hardware’s order',
    ({ chunks }) => (chunks! * FRAGMENT_CHUNK) / 16 + 12 + (isRounded ? 3 * 2 ** 13 : 0),
  );
};

const ROUNDED = 'a scale’s rounding to f16 shows in the product, which bench/gpu/linear.cu holds';

/** Dimensions `tiles` and `chunks` of the target; `blocks` of a row of the source, if it is in blocks. */
export const packFragments = variants((type: FragmentType) =>
  defineKernel({
    name: `pack_fragments_${type}`,
    source: 'hopper/pack_fragments.hip',
    on: 'hopper',
    summary: 'weights from rows of a file to the fragments of matrix instructions',
    arguments: [
      isBlockType(type)
        ? input('source', 'u8', 'out', 'blocks', `${blockFormat(type).blockBytes}`)
        : input('source', type, 'out', 'in'),
      aligned(16, inout('target', 'u8', 'tiles', 'chunks', `${tileBytes(fragmentFormat(type))}`)),
      inout('overflow', 'i32', '1'),
      i32('out'),
      i32('in'),
    ],
    grid: [{ of: 'tiles * chunks * 128', per: 'block' }],
    tolerance: exact(ROUNDED),
  }),
);

export const fragmentsContracts: readonly KernelContract[] = [...TILE_TYPES, ...BLOCK_TYPES].map(packFragments);
