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
} from '../../device/contract.js';
import { exact } from '../../device/tolerance.js';
import { ORDER } from '../reduction-order.js';
import { COLUMNS_MULTIPLE, columnsOf, saturatedCount } from './columns.js';
import {
  FRAGMENT_CHUNK,
  FRAGMENT_FORMATS,
  FRAGMENT_TILE_ROWS,
  type FragmentFormat,
  fragmentInput,
  fragmentRoundings,
  fragmentWeight,
  tileBytes,
} from './fragments.js';

/** Rows of the weight that a block has at a time. */
export const LINEAR_DECODE_ROWS = 16;

/**
 * Blocks that share a product of one row: two for each multiprocessor of an H200. The LDS that they ask for beside their own
 * leaves no room for a third, with which some multiprocessors would have three and others one.
 */
export const LINEAR_DECODE_BLOCKS = 264;
export const LINEAR_DECODE_LDS = 49_152;

/** Parts of a row that are summed apart, a wave each; the most chunks of one. */
export const LINEAR_SEGMENTS = 8;
export const LINEAR_DECODE_CHUNKS = 32;

/** Chunks that a wave multiplies while as many are on their way: what its registers hold of both. */
export const LINEAR_DECODE_BATCH: Readonly<Record<FragmentFormat, number>> = {
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

/** True if rows of so many elements stay in LDS, each segment a chunk or more. */
export const fitsRow = (elements: number): boolean =>
  elements % FRAGMENT_CHUNK === 0 &&
  elements >= LINEAR_SEGMENTS * FRAGMENT_CHUNK &&
  elements <= LINEAR_SEGMENTS * LINEAR_DECODE_CHUNKS * FRAGMENT_CHUNK;

/** Common parts of the contracts of one row's products. */
export const singleTokenShape = {
  on: 'hopper',
  dynamicSharedBytes: LINEAR_DECODE_LDS,
  grid: [{ of: 'out', per: LINEAR_DECODE_ROWS, most: LINEAR_DECODE_BLOCKS }],
  order: ORDER.halves,
} as const;
const shared = {
  ...singleTokenShape,
  source: 'hopper/linear_decode.hip',
  multiples: [['in', `${FRAGMENT_CHUNK}`]],
} as const;

/** `linear` of one row. Dimension `chunks`: of a row. */
export const linearRow = (format: FragmentFormat) => {
  const { multiples, ...all } = shared;
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

/** A row that is normalized where it is multiplied, and what is added to its products. */
export const normedInputs = [
  aligned(16, input('x', 'f32', 'in')),
  aligned(16, input('norm', 'f32', 'in')),
  input('parts', 'f32', 'parts'),
  input('bias', 'f32', 'biases'),
] as const;

/** Dimensions `tiles` and `chunks`: of the weight; `parts`: {@link normParts} of `in`; `biases`: `out`, or 0 where `biased` is. */
export const linearNormed = variants((format: FragmentFormat) =>
  defineKernel({
    ...shared,
    name: `linear_normed_${format}`,
    summary: 'y[n] = sum_k weight[n][k] * norm(x)[k] of one row, and its bias',
    arguments: [
      fragmentWeight(format, 'tiles'),
      ...normedInputs,
      output('y', 'f32', 'out'),
      saturatedCount,
      i32('out'),
      i32('in'),
      i32('biased'),
      f32('eps'),
    ],
    tolerance: exact('the very bits of rms_norm_columns, linear and bias_add'),
  }),
);

/** Formats of two matrices of one input that files mix, of which one launch takes both: q and k, then v. */
export type FormatPair = readonly [first: FragmentFormat, second: FragmentFormat];
export const FORMAT_PAIRS: readonly FormatPair[] = [
  ['q3', 'q4'],
  ['q3', 'q5'],
  ['q4', 'q6'],
  ['q5', 'q6'],
];

/** The pair of {@link FORMAT_PAIRS}; undefined where no launch takes both. */
export const formatPair = (first: FragmentFormat, second: FragmentFormat): FormatPair | undefined =>
  FORMAT_PAIRS.find(([a, b]) => a === first && b === second);

/** Common parts of the contracts of paired products. Dimensions `tiles_0`, `tiles_1` and `chunks`: of the weights. */
export const onePair = {
  ...singleTokenShape,
  grid: [{ of: 'out_0 + out_1', per: LINEAR_DECODE_ROWS, most: LINEAR_DECODE_BLOCKS }],
  multiples: [
    ['in', `${FRAGMENT_CHUNK}`],
    ['out_0', `${LINEAR_DECODE_ROWS}`],
    ['out_1', `${LINEAR_DECODE_ROWS}`],
  ],
} as const;
export const pairWeights = ([first, second]: FormatPair) =>
  [
    aligned(128, input('weight_0', 'u8', 'tiles_0', 'chunks', `${tileBytes(first)}`)),
    aligned(128, input('weight_1', 'u8', 'tiles_1', 'chunks', `${tileBytes(second)}`)),
  ] as const;
/** `blocks_0`: {@link pairBlocks}. */
export const pairSizes = [i32('out_0'), i32('out_1'), i32('in'), i32('blocks_0'), i32('biased'), f32('eps')] as const;

/** Number of blocks that share the first matrix: the largest with which the block that ends last ends earliest. */
export function pairBlocks([first, second]: FormatPair, outFirst: number, outSecond: number): number {
  const groups = [outFirst, outSecond].map((out) => out / LINEAR_DECODE_ROWS) as [number, number];
  if (groups[0] + groups[1] <= LINEAR_DECODE_BLOCKS) return groups[0];
  const longest = (blocks: number) =>
    Math.max(
      Math.ceil(groups[0] / blocks) * tileBytes(first),
      Math.ceil(groups[1] / (LINEAR_DECODE_BLOCKS - blocks)) * tileBytes(second),
    );
  // A block's groups lie at one place of their tiles.
  const groupsOfTile = FRAGMENT_TILE_ROWS / LINEAR_DECODE_ROWS;
  let best = groupsOfTile;
  for (let blocks = best; blocks < LINEAR_DECODE_BLOCKS && blocks <= groups[0]; blocks += groupsOfTile)
    if (longest(blocks) <= longest(best)) best = blocks;
  return best;
}

/** {@link linearNormed} of two matrices of formats of their own, their outputs side by side. */
export const linearNormedPair = variants((pair: FormatPair) =>
  defineKernel({
    ...onePair,
    name: `linear_normed_${pair.join('_')}`,
    source: 'hopper/linear_decode.hip',
    summary: 'y[n] = sum_k weight[n][k] * norm(x)[k] of one row, and its bias, of two matrices',
    arguments: [
      ...pairWeights(pair),
      ...normedInputs,
      output('y', 'f32', 'out_0 + out_1'),
      saturatedCount,
      ...pairSizes,
    ],
    tolerance: exact('the very bits of rms_norm_columns, linear and bias_add'),
  }),
);

/**
 * True if gate and up of so many rows are to be one launch: a block that takes both has a coarser share, which may cost more
 * than a launch.
 */
export function canShareSwiglu(ffn: number): boolean {
  const groups = ffn / LINEAR_DECODE_ROWS;
  return (
    ffn % FRAGMENT_TILE_ROWS === 0 &&
    2 * Math.ceil(groups / LINEAR_DECODE_BLOCKS) <= Math.ceil((2 * groups) / LINEAR_DECODE_BLOCKS)
  );
}

/** Dimensions `tiles`, `chunks` and `ffn_chunks`: of the weight, of a row of x and of y; `parts`: {@link normParts} of `hidden`. */
export const linearSwiglu = variants((format: FragmentFormat) =>
  defineKernel({
    ...singleTokenShape,
    source: 'hopper/linear_decode.hip',
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
    grid: [{ of: 'ffn', per: LINEAR_DECODE_ROWS, most: LINEAR_DECODE_BLOCKS }],
    multiples: [
      ['hidden', `${FRAGMENT_CHUNK}`],
      ['ffn', `${FRAGMENT_TILE_ROWS}`],
      ['y_rows', `${COLUMNS_MULTIPLE}`],
    ],
    tolerance: exact('the very bits of rms_norm_columns, linear and swiglu_columns'),
  }),
);

/** Dimensions `tiles` and `chunks`: of the weight; `parts`: {@link normParts} of `out`. */
export const linearSummed = (format: FragmentFormat) => {
  const { multiples, ...all } = shared;
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

export const linearOneContracts: readonly KernelContract[] = [
  ...FRAGMENT_FORMATS.flatMap((format) => [
    linearRow(format),
    linearNormed(format),
    linearSwiglu(format),
    linearSummed(format),
  ]),
  ...FORMAT_PAIRS.map(linearNormedPair),
];
