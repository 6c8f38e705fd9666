import {
  aligned,
  defineKernel,
  f32,
  i32,
  inout,
  input,
  type KernelContract,
  output,
  variants,
} from '../device/contract.js';
import { exact } from '../device/tolerance.js';
import { TILE_TYPES, type TileType } from './formats.js';
import { TILE_INPUT_MULTIPLE, TILE_VARIANTS } from './matmul-tile.js';
import { ORDER } from './reduction-order.js';
import { NORM_PART, NORMED_MOST } from './rms-norm.js';

/** A row of f32, the weight of its norm, and the sums of its squares that whoever wrote it left: `parts` of `in`. */
const normed = [
  aligned(16, input('x', 'f32', 'in')),
  aligned(16, input('norm', 'f32', 'in')),
  input('parts', 'f32', 'parts'),
] as const;
const multiples = [['in', `${TILE_INPUT_MULTIPLE}`]] as const;

/** True if a product of 16-bit weights may normalize its row of so many elements in each of its blocks. */
export const canNormalizeTile = (columns: number): boolean => columns <= NORMED_MOST && columns % NORM_PART === 0;

/** Dimension `biases`: the bias's elements, where it has one. */
export const matmulTileNormed = variants((type: TileType) =>
  defineKernel({
    name: `matmul_tile_normed_${type}`,
    source: 'matmul_tile_normed.hip',
    on: 'portable',
    summary: 'y[n] = sum_k weight[n][k] * norm(x)[k], with a bias, of one row, in 16 bits',
    arguments: [
      aligned(16, input('weight', type, 'out', 'in')),
      ...normed,
      input('bias', 'f32', 'biases'),
      output('y', 'f32', 'out'),
      i32('out'),
      i32('in'),
      i32('biased'),
      f32('eps'),
    ],
    grid: [{ of: 'out', per: TILE_VARIANTS.few.rows }],
    multiples,
    order: ORDER.tile,
    tolerance: exact('the very bits of rms_norm_convert, matmul_tile and bias_add'),
  }),
);

/** Dimension `parts`: {@link normParts} of `out`. */
export const matmulTileSummed = variants((type: TileType) =>
  defineKernel({
    name: `matmul_tile_summed_${type}`,
    source: 'matmul_tile_summed.hip',
    on: 'portable',
    summary: 'y[n] += sum_k weight[n][k] * x[k] of one row in 16 bits, and the sums of the squares of y',
    arguments: [
      aligned(16, input('weight', type, 'out', 'in')),
      aligned(16, input('x', type, 'in')),
      inout('y', 'f32', 'out'),
      output('parts', 'f32', 'parts'),
      i32('out'),
      i32('in'),
    ],
    grid: [{ of: 'out', per: TILE_VARIANTS.few.rows }],
    multiples,
    order: ORDER.tile,
    tolerance: exact('the very bits of matmul_tile, and of the sums of rms_norm'),
  }),
);

export const gateUpTileNormed = variants((type: TileType) =>
  defineKernel({
    name: `gate_up_tile_normed_${type}`,
    source: 'gate_up_tile_normed.hip',
    on: 'portable',
    summary: 'y = silu(gate · norm(x)) * (up · norm(x)) of one row, in 16 bits',
    arguments: [
      aligned(16, input('weight', type, '2', 'ffn', 'in')),
      ...normed,
      output('y', type, 'ffn'),
      i32('ffn'),
      i32('in'),
      f32('eps'),
    ],
    grid: [{ of: 'ffn', per: TILE_VARIANTS.few.rows }],
    multiples,
    order: ORDER.tile,
    tolerance: exact('the very bits of rms_norm_convert, matmul_tile and swiglu_convert'),
  }),
);

export const matmulTileOneContracts: readonly KernelContract[] = TILE_TYPES.flatMap((type) => [
  matmulTileNormed(type),
  matmulTileSummed(type),
  gateUpTileNormed(type),
]);
