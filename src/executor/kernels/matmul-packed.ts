import {
  aligned,
  defineKernel,
  f32,
  i32,
  inout,
  input,
  type KernelContract,
  output,
  rowsApart,
  variants,
} from '../device/contract.js';
import { exact, roundings } from '../device/tolerance.js';
import { PACKED_TYPES, type PackedType, Q8_BLOCK, Q8_BLOCK_BYTES } from './formats.js';
import type { Launch, Rows, ValuesOf } from './launch-plan.js';
import { ORDER } from './reduction-order.js';
import { PACKED_WIDTH, packedRowBytes } from './repack.js';
import { NORM_PART, NORMED_MOST } from './rms-norm.js';

/** Rows of x for which one block of matmul_packed reads the weight once, and rows of the weight that it reads. */
export const PACKED_TOKENS = 8;
export const MATMUL_PACKED_ROWS = 16;

/** Which of two forms with the same bits: for a single row of x, or for more. */
export type PackedRows = 'one' | 'several';

export const packedInfix = (rows: PackedRows): string => (rows === 'one' ? 'one_' : '');

export const rowsAtOnce = (rows: PackedRows): number => (rows === 'one' ? 1 : PACKED_TOKENS);

/** Rows of packed weights and of what is multiplied with them start at 16 bytes: {@link PACKED_WIDTH}. */
export const PACKED_ROWS = [
  ['row_bytes', '16'],
  ['blocks', `${PACKED_WIDTH / Q8_BLOCK}`],
] as const;

/** Dimension `row_bytes`: {@link packedRowBytes}; `blocks` are of 32 elements. */
export const matmulPacked = variants((type: PackedType, rows: PackedRows = 'several') =>
  defineKernel({
    name: `matmul_packed_${packedInfix(rows)}${type}`,
    source: 'matmul_packed.hip',
    on: 'portable',
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
      { of: 'out', per: MATMUL_PACKED_ROWS },
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
  }),
);

/** Rows of the weight and of x that one block of matmul_packed_tile multiplies. */
export const PACKED_TILE = 64;

/** {@link matmulPacked} for many rows of x, on matrix units: the same arguments and bits. */
export const matmulPackedTile = (type: PackedType) => {
  const { summary, arguments: taken, multiples, order, tolerance } = matmulPacked(type);
  return defineKernel({
    name: `matmul_packed_tile_${type}`,
    source: 'matmul_packed_tile.hip',
    on: 'portable',
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

/** A row of f32, the weight of its norm, and the sums of its squares that whoever wrote it left. */
const normed = [
  aligned(16, input('x', 'f32', 'in')),
  aligned(16, input('norm', 'f32', 'in')),
  input('parts', 'f32', 'parts'),
] as const;

/** True if a product's row of so many elements may be normalized by each block that multiplies it. */
export const canNormalize = (columns: number): boolean => columns <= NORMED_MOST && columns % PACKED_WIDTH === 0;

/** Parts of a row of so many elements. */
export const normParts = (columns: number): number => Math.ceil(columns / NORM_PART);

/** Dimensions `in`: 32 · blocks, and `parts`: {@link normParts} of it. */
export const matmulNormed = variants((type: PackedType) =>
  defineKernel({
    name: `matmul_normed_${type}`,
    source: 'matmul_normed.hip',
    on: 'portable',
    summary: 'y[n] = sum_k weight[n][k] * norm(x)[k] of one row',
    arguments: [
      aligned(16, input('weight', 'u8', 'out', 'row_bytes')),
      ...normed,
      output('y', 'f32', 'out'),
      i32('out'),
      i32('blocks'),
      f32('eps'),
    ],
    grid: [{ of: 'out', per: MATMUL_PACKED_ROWS }],
    multiples: PACKED_ROWS,
    order: ORDER.packed,
    tolerance: exact('the very bits of rms_norm_quantize and matmul_packed'),
  }),
);

/** Largest number of weights that {@link matmulNormedParts} multiplies. */
export const MOST_PARTS = 3;

/**
 * {@link matmulNormed} of up to three weights, whose types are numbered as {@link PACKED_TYPES}. Dimensions `in`: 32 · blocks,
 * `parts`: {@link normParts} of it; `row_bytes_0` and so on: {@link packedRowBytes}, and `biases`: the bias's elements.
 */
export const matmulNormedParts = defineKernel({
  name: 'matmul_normed_parts',
  source: 'matmul_normed_parts.hip',
  on: 'portable',
  summary: 'y = weights · norm(x), with a bias, of one row and up to three weights of types of their own',
  arguments: [
    aligned(16, input('weight_0', 'u8', 'out_0', 'row_bytes_0')),
    aligned(16, input('weight_1', 'u8', 'out_1', 'row_bytes_1')),
    aligned(16, input('weight_2', 'u8', 'out_2', 'row_bytes_2')),
    ...normed,
    input('bias', 'f32', 'biases'),
    output('y', 'f32', 'out_0 + out_1 + out_2'),
    i32('out_0'),
    i32('out_1'),
    i32('out_2'),
    i32('type_0'),
    i32('type_1'),
    i32('type_2'),
    i32('blocks'),
    i32('biased'),
    f32('eps'),
  ],
  grid: [{ of: 'out_0 + out_1 + out_2', per: MATMUL_PACKED_ROWS }],
  multiples: [
    ...(['row_bytes_0', 'row_bytes_1', 'row_bytes_2'] as const).map((size) => [size, '16'] as const),
    ...(['out_0', 'out_1', 'out_2'] as const).map((size) => [size, `${MATMUL_PACKED_ROWS}`] as const),
    ['blocks', `${PACKED_WIDTH / Q8_BLOCK}`],
  ],
  order: ORDER.packed,
  tolerance: exact('the very bits of a matmul_normed of each weight, and of bias_add'),
});

/** Dimension `parts`: {@link normParts} of `out`. */
export const matmulSummed = variants((type: PackedType) =>
  defineKernel({
    name: `matmul_summed_${type}`,
    source: 'matmul_summed.hip',
    on: 'portable',
    summary: 'y[n] += sum_k weight[n][k] * x[k] of one row, and the sums of the squares of y',
    arguments: [
      aligned(16, input('weight', 'u8', 'out', 'row_bytes')),
      aligned(16, input('x', 'u8', 'blocks', `${Q8_BLOCK_BYTES}`)),
      inout('y', 'f32', 'out'),
      output('parts', 'f32', 'parts'),
      i32('out'),
      i32('blocks'),
    ],
    grid: [{ of: 'out', per: MATMUL_PACKED_ROWS }],
    multiples: PACKED_ROWS,
    order: ORDER.packed,
    tolerance: exact('the very bits of matmul_packed, and of the sums of rms_norm'),
  }),
);

/** Dimensions `in`: 32 · blocks, and `parts`: {@link normParts} of it; `ffn_blocks`: ffn / 32. */
export const gateUpNormed = variants((type: PackedType) =>
  defineKernel({
    name: `gate_up_normed_${type}`,
    source: 'gate_up_normed.hip',
    on: 'portable',
    summary: 'y = silu(gate · norm(x)) * (up · norm(x)) of one row, quantized as quantize_q8 does',
    arguments: [
      aligned(16, input('gate', 'u8', 'ffn', 'row_bytes')),
      aligned(16, input('up', 'u8', 'ffn', 'row_bytes')),
      ...normed,
      aligned(4, output('y', 'u8', 'ffn_blocks', `${Q8_BLOCK_BYTES}`)),
      i32('ffn'),
      i32('blocks'),
      f32('eps'),
    ],
    grid: [{ of: 'ffn', per: Q8_BLOCK }],
    multiples: [...PACKED_ROWS, ['ffn', `${Q8_BLOCK}`]],
    order: ORDER.packed,
    tolerance: exact('the very bits of rms_norm_quantize, matmul_packed and swiglu_quantize'),
  }),
);

/** The most rows that are multiplied a few at a time; matrix units are faster for more. */
const MOST_SEVERAL = 63;

/** y = weight · x, or that added to y, in the fastest form for each number of rows. @param columns of the weight */
export function launchMatmulPacked(
  launch: Launch,
  type: PackedType,
  columns: number,
  rows: Rows,
  values: Omit<ValuesOf<ReturnType<typeof matmulPacked>>, 'tokens' | 'blocks'>,
): void {
  const all = { ...values, tokens: rows.present, blocks: columns / Q8_BLOCK };
  const dims = { rows: rows.count, row_bytes: packedRowBytes(type, columns) };
  const { count } = rows;
  launch(matmulPacked(type, 'one'), all, dims, { count, atLeast: 1, atMost: 1 });
  launch(matmulPacked(type), all, dims, { count, atLeast: 2, atMost: MOST_SEVERAL });
  launch(matmulPackedTile(type), all, dims, { count, atLeast: MOST_SEVERAL + 1 });
}

export const matmulPackedContracts: readonly KernelContract[] = [
  ...PACKED_TYPES.flatMap((type) => [matmulPacked(type, 'one'), matmulPacked(type), matmulPackedTile(type)]),
  ...PACKED_TYPES.flatMap((type) => [matmulNormed(type), matmulSummed(type), gateUpNormed(type)]),
  matmulNormedParts,
];
