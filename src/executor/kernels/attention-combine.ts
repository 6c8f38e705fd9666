import { aligned, defineKernel, i32, input, type KernelContract, output, variants } from '../device/contract.js';
import type { DeviceBuffer } from '../device/device.js';
import { exact, roundings, stored } from '../device/tolerance.js';
import { convert } from './convert.js';
import { Q8_BLOCK, Q8_BLOCK_BYTES, TILE_TYPES, type TileType } from './formats.js';
import { COLUMNS_MULTIPLE, columnsOf, convertColumns } from './hopper/columns.js';
import { chunksOf, FRAGMENT_CHUNK } from './hopper/fragments.js';
import type { Launch, LaunchCondition, StepCount, ValuesOf } from './launch-plan.js';
import { sinksOf } from './paged-cache.js';
import { quantizeQ8 } from './quantize-q8.js';
import { ORDER } from './reduction-order.js';

/** Heads of a row that a block of attention_combine combines. */
export const COMBINE_HEADS = 2;
/** Splits that a thread an element combines; of more, a block for each COMBINE_SPLITS shares the heads, at most COMBINE_BLOCKS. */
export const COMBINE_FEW = 16;
export const COMBINE_SPLITS = 4;
export const COMBINE_BLOCKS = 8;
const COMBINE_GRID = [
  { of: 'heads', per: COMBINE_HEADS },
  { of: 'tokens' },
  { of: 'splits', per: COMBINE_SPLITS, most: COMBINE_BLOCKS },
] as const;

export const attentionCombine = defineKernel({
  name: 'attention_combine',
  source: 'attention_combine.hip',
  on: 'gpu',
  summary: 'combines the splits of each row in order',
  arguments: [
    input('parts', 'f32', 'tokens', 'heads', 'splits', 'head_dim + 2'),
    sinksOf,
    output('out', 'f32', 'tokens', 'heads', 'head_dim'),
    input('row_position', 'i32', 'tokens'),
    i32('heads'),
    i32('head_dim'),
    i32('splits'),
    i32('window'),
  ],
  grid: COMBINE_GRID,
  order: ORDER.splits,
  tolerance: roundings(
    '(8 · splits + 16) · 2⁻²⁴ · max |values / sum|: each combine scales and adds twice',
    ({ splits }) => 8 * splits! + 16,
  ),
});

export const attentionCombineColumns = variants((type: TileType) =>
  defineKernel({
    name: `attention_combine_columns_${type}`,
    source: 'hopper/attention_combine_columns.hip',
    on: 'hopper',
    summary: 'attention_combine, in columns of 16-bit floats',
    arguments: [
      input('parts', 'f32', 'tokens', 'heads', 'splits', 'head_dim + 2'),
      sinksOf,
      columnsOf('out', type, 'out_rows'),
      input('row_position', 'i32', 'tokens'),
      i32('heads'),
      i32('head_dim'),
      i32('splits'),
      i32('window'),
      i32('out_rows'),
    ],
    grid: COMBINE_GRID,
    multiples: [
      ['out_rows', `${COLUMNS_MULTIPLE}`],
      ['head_dim', `${FRAGMENT_CHUNK}`],
    ],
    order: ORDER.splits,
    tolerance: stored(type, attentionCombine.tolerance),
  }),
);

export const attentionCombineConvert = variants((type: TileType) =>
  defineKernel({
    name: `attention_combine_convert_${type}`,
    source: 'attention_combine_convert.hip',
    on: 'portable',
    summary: 'attention_combine, stored as 16-bit floats',
    arguments: [
      input('parts', 'f32', 'tokens', 'heads', 'splits', 'head_dim + 2'),
      sinksOf,
      output('out', type, 'tokens', 'heads', 'head_dim'),
      input('row_position', 'i32', 'tokens'),
      i32('heads'),
      i32('head_dim'),
      i32('splits'),
      i32('window'),
    ],
    grid: COMBINE_GRID,
    order: ORDER.splits,
    tolerance: stored(type, attentionCombine.tolerance),
  }),
);

/** Dimension `blocks`: heads · head_dim / 32, of a row. `rows` is written on the way. */
export const attentionCombineQuantize = defineKernel({
  name: 'attention_combine_quantize',
  source: 'attention_combine_quantize.hip',
  on: 'portable',
  summary: 'attention_combine, then quantize_q8',
  arguments: [
    input('parts', 'f32', 'tokens', 'heads', 'splits', 'head_dim + 2'),
    sinksOf,
    aligned(16, output('rows', 'f32', 'tokens', 'heads', 'head_dim')),
    aligned(4, output('out', 'u8', 'tokens', 'blocks', `${Q8_BLOCK_BYTES}`)),
    input('row_position', 'i32', 'tokens'),
    i32('heads'),
    i32('head_dim'),
    i32('splits'),
    i32('window'),
  ],
  grid: COMBINE_GRID,
  multiples: [['head_dim', `${Q8_BLOCK}`]],
  order: ORDER.splits,
  tolerance: exact('the very bits of attention_combine and quantize_q8'),
});

/** Output of attention in the encoding that products take: as columns, `[chunks, rows, FRAGMENT_CHUNK]`, or as rows. */
export type AttendedEncoding =
  | { readonly form: TileType; readonly y: DeviceBuffer; readonly columns?: AttendedColumnTiles | undefined }
  | { readonly form: 'q8'; readonly y: DeviceBuffer; readonly columns?: undefined };

/** Rows of a chunk of columns, and the counter of numbers beyond f16's range. */
export interface AttendedColumnTiles {
  readonly rows: number;
  readonly saturated: DeviceBuffer;
}

/** Combines what the splits left, in the form that is asked for. */
export function launchCombine(
  launch: Launch,
  combined: Omit<ValuesOf<typeof attentionCombine>, 'out'>,
  out: DeviceBuffer,
  attended: AttendedEncoding | undefined,
  combines: { readonly tokens: StepCount; readonly splits: StepCount },
  when?: LaunchCondition,
): void {
  const columns = combined.heads * combined.head_dim;
  if (attended === undefined) launch(attentionCombine, { ...combined, out }, combines, when);
  else if (attended.form === 'q8') {
    const blocks = columns / Q8_BLOCK;
    launch(attentionCombineQuantize, { ...combined, rows: out, out: attended.y }, { ...combines, blocks }, when);
  } else if (attended.columns === undefined) {
    launch(attentionCombineConvert(attended.form), { ...combined, out: attended.y }, combines, when);
  } else {
    const { rows: out_rows } = attended.columns;
    const sizes = { ...combines, chunks: chunksOf(columns) };
    launch(attentionCombineColumns(attended.form), { ...combined, out: attended.y, out_rows }, sizes, when);
  }
}

/** Rows of f32 in the form that is asked for. */
export function launchAttended(
  launch: Launch,
  x: DeviceBuffer,
  columns: number,
  { form, y, columns: tiles }: AttendedEncoding,
  rows: StepCount,
  when: LaunchCondition,
): void {
  const values = { x, y, in: columns };
  if (form === 'q8') launch(quantizeQ8, values, { rows, blocks: columns / Q8_BLOCK }, when);
  else if (tiles === undefined) launch(convert(form), values, { rows }, when);
  else {
    const { rows: y_rows, saturated } = tiles;
    launch(convertColumns(form), { ...values, saturated, y_rows }, { rows, chunks: chunksOf(columns) }, when);
  }
}

export const attentionCombineContracts: readonly KernelContract[] = [
  attentionCombine,
  ...TILE_TYPES.flatMap((type) => [attentionCombineColumns(type), attentionCombineConvert(type)]),
  attentionCombineQuantize,
];
