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
} from '../device/contract.js';
import { exact } from '../device/tolerance.js';
import { COLUMNS_MULTIPLE, columnsOf, saturatedCount } from './columns.js';
import {
  FRAGMENT_CHUNK,
  FRAGMENT_FORMATS,
  FRAGMENT_TILE_ROWS,
  type FragmentFormat,
  fragmentInput,
  fragmentRoundings,
  fragmentWeight,
} from './fragments.js';
import { ORDER } from './reduction-order.js';

/** Rows of the weight that a block has at a time. */
export const LINEAR_ONE_ROWS = 16;

/**
 * Blocks that share a product of one row: two for each multiprocessor of an H200. The LDS that they ask for beside their own
 * leaves no room for a third, with which some multiprocessors would have three and others one.
 */
export const LINEAR_ONE_BLOCKS = 264;
export const LINEAR_ONE_LDS = 49_152;

/** Parts of a row that are summed apart, a wave each; the most chunks of one. */
export const LINEAR_SEGMENTS = 8;
export const LINEAR_ONE_CHUNKS = 32;

/** Chunks that a wave multiplies while as many are on their way: what its registers hold of both. */
export const LINEAR_ONE_BATCH: Readonly<Record<FragmentFormat, number>> = {
  f16: 2,
  bf16: 2,
  q2: 2,
  q3: 4,
  q4: 4,
  q5: 4,
  q6: 2,
  q8: 2,
  iq4: 4,
};

/** Whether rows of so many elements are of whole batches, and stay in LDS. */
export const fitsRow = (format: FragmentFormat, elements: number): boolean =>
  elements % (LINEAR_SEGMENTS * LINEAR_ONE_BATCH[format] * FRAGMENT_CHUNK) === 0 &&
  elements <= LINEAR_SEGMENTS * LINEAR_ONE_CHUNKS * FRAGMENT_CHUNK;

const shared = (format: FragmentFormat) => ({
  source: 'linear_one.hip',
  on: 'hopper' as const,
  dynamicSharedBytes: LINEAR_ONE_LDS,
  grid: [{ of: 'out', per: LINEAR_ONE_ROWS, most: LINEAR_ONE_BLOCKS }],
  multiples: [['in', `${LINEAR_SEGMENTS * LINEAR_ONE_BATCH[format] * FRAGMENT_CHUNK}`]] as const,
  order: ORDER.halves,
});

/** `linear` of one row. Dimension `chunks`: of a row. */
export const linearRow = (format: FragmentFormat) => {
  const { multiples, ...all } = shared(format);
  return defineKernel({
    ...all,
    name: `linear_row_${format}`,
    summary: 'y[n] (+)= sum_k weight[n][k] * x[k] of one row, weight as pack_fragments makes it, x in columns',
    arguments: [
      fragmentWeight(format, 'tiles'),
      columnsOf('x', fragmentInput(format), 'x_rows'),
      rowsApart('y_stride', inout('y', 'f32', 'rows', 'out')),
      input('tokens', 'i32', '1'),
      i32('tiles'),
      i32('out'),
      i32('in'),
      i32('x_rows'),
      i32('y_stride'),
      i32('accumulate'),
    ],
    multiples: [...multiples, ['x_rows', `${COLUMNS_MULTIPLE}`]],
    tolerance: fragmentRoundings(format),
  });
};

/** Dimensions `tiles` and `chunks`: of the weight; `parts`: {@link normParts} of `in`. */
export const linearNormed = (format: FragmentFormat) =>
  defineKernel({
    ...shared(format),
    name: `linear_normed_${format}`,
    summary: 'y[n] = sum_k weight[n][k] * norm(x)[k] of one row',
    arguments: [
      fragmentWeight(format, 'tiles'),
      aligned(16, input('x', 'f32', 'in')),
      aligned(16, input('norm', 'f32', 'in')),
      input('parts', 'f32', 'parts'),
      output('y', 'f32', 'out'),
      saturatedCount,
      i32('out'),
      i32('in'),
      f32('eps'),
    ],
    tolerance: exact('the very bits of rms_norm_columns and linear'),
  });

/**
 * Whether gate and up of so many rows are to be one launch: a block that takes both has a coarser share, which may cost more
 * than a launch.
 */
export function canShareSwiglu(ffn: number): boolean {
  const groups = ffn / LINEAR_ONE_ROWS;
  return (
    ffn % FRAGMENT_TILE_ROWS === 0 &&
    2 * Math.ceil(groups / LINEAR_ONE_BLOCKS) <= Math.ceil((2 * groups) / LINEAR_ONE_BLOCKS)
  );
}

/** Dimensions `tiles`, `chunks` and `ffn_chunks`: of the weight, of a row of x and of y; `parts`: {@link normParts} of `hidden`. */
export const linearSwiglu = (format: FragmentFormat) =>
  defineKernel({
    source: 'linear_one.hip',
    on: 'hopper',
    dynamicSharedBytes: LINEAR_ONE_LDS,
    name: `linear_swiglu_${format}`,
    summary: 'y[n] = silu(gate[n] · norm(x)) * (up[n] · norm(x)) of one row, in columns',
    arguments: [
      fragmentWeight(format, '2', 'tiles'),
      aligned(16, input('x', 'f32', 'hidden')),
      aligned(16, input('norm', 'f32', 'hidden')),
      input('parts', 'f32', 'parts'),
      aligned(128, inout('y', fragmentInput(format), 'ffn_chunks', 'y_rows', `${FRAGMENT_CHUNK}`)),
      saturatedCount,
      i32('ffn'),
      i32('hidden'),
      i32('y_rows'),
      f32('eps'),
    ],
    grid: [{ of: 'ffn', per: LINEAR_ONE_ROWS, most: LINEAR_ONE_BLOCKS }],
    multiples: [
      ['hidden', `${LINEAR_SEGMENTS * LINEAR_ONE_BATCH[format] * FRAGMENT_CHUNK}`],
      ['ffn', `${FRAGMENT_TILE_ROWS}`],
      ['y_rows', `${COLUMNS_MULTIPLE}`],
    ],
    order: ORDER.halves,
    tolerance: exact('the very bits of rms_norm_columns, linear and swiglu_columns'),
  });

/** Dimensions `tiles` and `chunks`: of the weight; `parts`: {@link normParts} of `out`. */
export const linearSummed = (format: FragmentFormat) => {
  const { multiples, ...all } = shared(format);
  return defineKernel({
    ...all,
    name: `linear_summed_${format}`,
    summary: 'y[n] += sum_k weight[n][k] * x[k] of one row, and the sums of the squares of y',
    arguments: [
      fragmentWeight(format, 'tiles'),
      columnsOf('x', fragmentInput(format), 'x_rows'),
      inout('y', 'f32', 'out'),
      output('parts', 'f32', 'parts'),
      i32('out'),
      i32('in'),
      i32('x_rows'),
    ],
    multiples: [...multiples, ['x_rows', `${COLUMNS_MULTIPLE}`]],
    tolerance: exact('the very bits of linear, and of the sums of rms_norm'),
  });
};

export const linearOneContracts: readonly KernelContract[] = FRAGMENT_FORMATS.flatMap((format) => [
  linearRow(format),
  linearNormed(format),
  linearSwiglu(format),
  linearSummed(format),
]);
