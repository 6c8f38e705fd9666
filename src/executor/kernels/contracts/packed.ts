import { aligned, defineKernel, i32, inout, input, type KernelContract, rowsApart } from '../contract.js';
import { ORDER } from '../reduction-order.js';
import { exact, roundings } from '../tolerance.js';
import { BLOCK_TYPES, type BlockType, blockFormat, Q8_BLOCK, Q8_BLOCK_BYTES } from './quantized.js';

/** The width of packed weights is a multiple of this. */
export const PACKED_WIDTH = 64;
/** Rows of x for which one block of matmul_packed reads the weight once; `PACKED_TOKENS` of `forge/packed_dot.h`. */
export const PACKED_TOKENS = 8;

/** Whether weights of this format and width can be packed. */
export function canPack(type: BlockType, columns: number): boolean {
  return columns % Math.max(PACKED_WIDTH, blockFormat(type).blockElements) === 0;
}

/** Bytes of one packed row of `columns` weights: those of the file, padded to 16. */
export function packedRowBytes(type: BlockType, columns: number): number {
  const { blockElements, blockBytes } = blockFormat(type);
  return Math.ceil(((columns / blockElements) * blockBytes) / 16) * 16;
}

/** Dimension `row_bytes`: {@link packedRowBytes}. `out · blocks` must be below 2³¹. */
export const repack = (type: BlockType) => {
  const { blockElements, blockBytes } = blockFormat(type);
  return defineKernel({
    name: `repack_${type}`,
    source: 'repack.hip',
    on: 'gpu',
    summary: 'weights from the blocks of their file to planes that GPUs read by 16 bytes',
    arguments: [
      input('source', 'u8', 'out', 'blocks', `${blockBytes}`),
      aligned(16, inout('target', 'u8', 'out', 'row_bytes')),
      i32('out'),
      i32('blocks'),
    ],
    grid: [{ of: `out * blocks * ${blockElements / Q8_BLOCK}`, per: 'block' }],
    multiples: [['row_bytes', '16']],
    tolerance: exact('bits are moved'),
  });
};

/** Which of two forms with the same bits: for a single row of x, or for more. */
export type PackedRows = 'one' | 'several';
const infix = (rows: PackedRows): string => (rows === 'one' ? 'one_' : '');
const rowsAtOnce = (rows: PackedRows): number => (rows === 'one' ? 1 : PACKED_TOKENS);

/** Rows of packed weights and of what is multiplied with them start at 16 bytes: {@link PACKED_WIDTH}. */
const PACKED_ROWS = [
  ['row_bytes', '16'],
  ['blocks', `${PACKED_WIDTH / Q8_BLOCK}`],
] as const;

/** Dimension `row_bytes`: {@link packedRowBytes}; `blocks` are of 32 elements. */
export const matmulPacked = (type: BlockType, rows: PackedRows = 'several') =>
  defineKernel({
    name: `matmul_packed_${infix(rows)}${type}`,
    source: 'matmul_packed.hip',
    on: 'gpu',
    summary: 'y[t][n] (+)= sum_k weight[n][k] * x[t][k], weight as repack makes it, x as quantize_q8 makes it',
    arguments: [
      aligned(16, input('weight', 'u8', 'out', 'row_bytes')),
      aligned(16, input('x', 'u8', 'rows', 'blocks', `${Q8_BLOCK_BYTES}`)),
      rowsApart('y_stride', inout('y', 'f32', 'rows', 'out')),
      input('tokens', 'i32', '1'),
      i32('out'),
      i32('blocks'),
      i32('y_stride'),
      i32('accumulate'),
    ],
    grid: [
      { of: 'out', per: 16 },
      { of: 'rows', per: rowsAtOnce(rows) },
    ],
    multiples: PACKED_ROWS,
    offsets32: [`${PACKED_TOKENS} * blocks * ${Q8_BLOCK_BYTES}`],
    order: ORDER.packed,
    tolerance: roundings(
      '(in / 16 + 70) · 2⁻²⁴ · (sum |scale · quant · x| + sum |minimum · x| + |y|): sums of quants are exact; partial ' +
        'sums take two roundings a block of 32, each term three more and the last sum at most 65',
      ({ blocks }) => 2 * blocks! + 70,
    ),
  });

/** Rows of the weight and of x that one block of matmul_packed_tile multiplies. */
const PACKED_TILE = 64;

/** {@link matmulPacked} for many rows of x, on matrix units: the same arguments and bits. */
export const matmulPackedTile = (type: BlockType) => {
  const { summary, arguments: taken, multiples, order, tolerance } = matmulPacked(type);
  return defineKernel({
    name: `matmul_packed_tile_${type}`,
    source: 'matmul_packed_tile.hip',
    on: 'gpu',
    summary,
    arguments: taken,
    grid: [
      { of: 'rows', per: PACKED_TILE },
      { of: 'out', per: PACKED_TILE },
    ],
    multiples: multiples!,
    offsets32: [`${PACKED_TILE} * blocks * ${Q8_BLOCK_BYTES}`],
    order: order!,
    tolerance,
  });
};

/** Dimension `row_bytes`: {@link packedRowBytes}; `ffn_blocks`: ffn / 32. `blocks` are of 32 elements, and `ffn` is a multiple of 32. */
export const gateUpSwigluPacked = (type: BlockType, rows: PackedRows = 'several') =>
  defineKernel({
    name: `gate_up_swiglu_packed_${infix(rows)}${type}`,
    source: 'twins/gate_up_swiglu_packed.hip',
    summary: 'y[t] = silu(gate · x[t]) * (up · x[t]), quantized as quantize_q8 does',
    arguments: [
      aligned(16, input('gate', 'u8', 'ffn', 'row_bytes')),
      aligned(16, input('up', 'u8', 'ffn', 'row_bytes')),
      aligned(16, input('x', 'u8', 'rows', 'blocks', `${Q8_BLOCK_BYTES}`)),
      aligned(4, inout('y', 'u8', 'rows', 'ffn_blocks', `${Q8_BLOCK_BYTES}`)),
      input('tokens', 'i32', '1'),
      i32('ffn'),
      i32('blocks'),
    ],
    grid: [
      { of: 'ffn', per: Q8_BLOCK },
      { of: 'rows', per: rowsAtOnce(rows) },
    ],
    multiples: [...PACKED_ROWS, ['ffn', `${Q8_BLOCK}`]],
    offsets32: [`${PACKED_TOKENS} * blocks * ${Q8_BLOCK_BYTES}`],
    order: ORDER.packed,
    tolerance: exact('the very bits of matmul_packed, swiglu and quantize_q8'),
  });

/** Weights repacked for GPUs. */
export const packedContracts: readonly KernelContract[] = BLOCK_TYPES.flatMap((type) => [
  repack(type),
  matmulPacked(type, 'one'),
  matmulPacked(type),
  gateUpSwigluPacked(type, 'one'),
  matmulPackedTile(type),
  gateUpSwigluPacked(type),
]);
