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
import { exact, roundings, stored } from '../device/tolerance.js';
import { Q8_BLOCK, Q8_BLOCK_BYTES, TILE_TYPES, type TileType } from './formats.js';
import { ORDER } from './reduction-order.js';

/** Elements whose squares are one part of a row's sum on GPUs, and the most parts of a row; wider rows add otherwise. */
export const NORM_PART = 16;
export const NORM_PARTS = 1024;
/** The most elements of a row that each block that multiplies it normalizes for itself. */
export const NORMED_MOST = 8192;

export const rmsNorm = defineKernel({
  name: 'rms_norm',
  source: 'rms_norm.hip',
  summary: 'y = x / sqrt(mean(x²) + eps) * weight',
  arguments: [
    aligned(16, input('x', 'f32', 'rows', 'hidden')),
    input('weight', 'f32', 'hidden'),
    output('y', 'f32', 'rows', 'hidden'),
    i32('hidden'),
    f32('eps'),
  ],
  grid: [{ of: 'rows' }],
  inPlace: [['x', 'y']],
  order: ORDER.norm,
  tolerance: roundings(
    '(hidden / 8 + 16) · 2⁻²⁴ · |reference|: the sum of squares has only positive terms, taken 8 or more at a time',
    ({ hidden }) => hidden! / 8 + 16,
  ),
});

const normed = [aligned(16, input('x', 'f32', 'rows', 'hidden')), input('weight', 'f32', 'hidden')] as const;

const normSizes = [i32('hidden'), f32('eps')] as const;

/** Dimension `blocks`: hidden / 32. */
export const rmsNormQuantize = defineKernel({
  name: 'rms_norm_quantize',
  source: 'rms_norm_quantize.hip',
  on: 'portable',
  summary: 'rms_norm, then quantize_q8',
  arguments: [...normed, aligned(4, output('y', 'u8', 'rows', 'blocks', `${Q8_BLOCK_BYTES}`)), ...normSizes],
  grid: [{ of: 'rows' }],
  multiples: [['hidden', `${Q8_BLOCK}`]],
  order: ORDER.norm,
  tolerance: exact('the very bits of rms_norm and quantize_q8'),
});

export const rmsNormConvert = variants((type: TileType) =>
  defineKernel({
    name: `rms_norm_convert_${type}`,
    source: 'rms_norm_convert.hip',
    on: 'portable',
    summary: 'rms_norm, stored as 16-bit floats',
    arguments: [...normed, aligned(8, output('y', type, 'rows', 'hidden')), ...normSizes],
    grid: [{ of: 'rows' }],
    order: ORDER.norm,
    tolerance: stored(type, rmsNorm.tolerance),
  }),
);

export const rmsNormF16 = defineKernel({
  name: 'rms_norm_f16',
  source: 'twins/rms_norm_f16.hip',
  summary: rmsNorm.summary,
  arguments: [
    input('x', 'f16', 'rows', 'hidden'),
    input('weight', 'f32', 'hidden'),
    output('y', 'f16', 'rows', 'hidden'),
    i32('hidden'),
    f32('eps'),
  ],
  grid: [{ of: 'rows' }],
  inPlace: [['x', 'y']],
  order: ORDER.norm,
  tolerance: stored('f16', rmsNorm.tolerance),
});

export const rmsNormResidual = defineKernel({
  name: 'rms_norm_residual',
  source: 'twins/rms_norm_residual.hip',
  summary: 'x += delta, then y = x / sqrt(mean(x²) + eps) * weight',
  arguments: [
    inout('x', 'f32', 'rows', 'hidden'),
    input('delta', 'f32', 'rows', 'hidden'),
    input('weight', 'f32', 'hidden'),
    output('y', 'f32', 'rows', 'hidden'),
    i32('hidden'),
    f32('eps'),
  ],
  grid: [{ of: 'rows' }],
  order: ORDER.norm,
  tolerance: rmsNorm.tolerance,
});

/** Dimension `parts`: {@link normParts} of `hidden`. */
export const normAdd = defineKernel({
  name: 'norm_add',
  source: 'norm_add.hip',
  on: 'gpu',
  needsBlock: true,
  summary: 'x += rms_norm(y), and the sums of the squares of its first row',
  arguments: [
    aligned(16, inout('x', 'f32', 'rows', 'hidden')),
    aligned(16, input('y', 'f32', 'rows', 'hidden')),
    aligned(16, input('weight', 'f32', 'hidden')),
    output('parts', 'f32', 'parts'),
    i32('hidden'),
    f32('eps'),
  ],
  grid: [{ of: 'rows' }],
  multiples: [['hidden', '4']],
  order: ORDER.norm,
  tolerance: exact('the very bits of rms_norm and residual_add, and of the sums of rms_norm'),
});

export const rmsNormContracts: readonly KernelContract[] = [
  normAdd,
  rmsNorm,
  rmsNormQuantize,
  ...TILE_TYPES.map(rmsNormConvert),
  rmsNormF16,
  rmsNormResidual,
];
