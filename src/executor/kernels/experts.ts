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
import { elementwise, exact, roundings, stored } from '../device/tolerance.js';
import { COLUMNS_MULTIPLE, COLUMNS_PART, columnsOf, saturatedCount } from './columns.js';
import {
  BLOCK_TYPES,
  type BlockType,
  blockFormat,
  isPackedType,
  PACKED_TYPES,
  type PackedType,
  Q8_BLOCK,
  Q8_BLOCK_BYTES,
  TILE_TYPES,
  type TileType,
  WEIGHT_FLOAT_TYPES,
  type WeightFloatType,
} from './formats.js';
import { chunksOf, FRAGMENT_FORMATS, type FragmentFormat, fragmentInput, tileBytes, tilesOf } from './fragments.js';
import type { Launch, LaunchCondition, StepCount, ValuesOf } from './launch-plan.js';
import { LINEAR_FORMS, LINEAR_WIDE_LDS, LINEAR_WIDE_THREADS, linear } from './linear.js';
import { MATMUL_TOKENS, matmul } from './matmul.js';
import {
  MATMUL_PACKED_ROWS,
  matmulPacked,
  matmulPackedTile,
  PACKED_ROWS,
  PACKED_TILE,
  PACKED_TOKENS,
  type PackedRows,
  packedInfix,
  rowsAtOnce,
} from './matmul-packed.js';
import { MATMUL_QUANTIZED_ROWS, MATMUL_QUANTIZED_TOKENS, matmulQuantized } from './matmul-quantized.js';
import {
  matmulTile,
  TILE_FORM_NAMES,
  TILE_FORMS,
  TILE_INPUT_MULTIPLE,
  type TileForm,
  tileSuffix,
} from './matmul-tile.js';
import { ORDER } from './reduction-order.js';
import { packedRowBytes } from './repack.js';
import { swiglu } from './swiglu.js';

/** The most experts that a layer has, and that a row is sent to. */
export const MOST_EXPERTS = 512;
export const MOST_USED_EXPERTS = 32;

/** What a score becomes: a part of the softmax over all, its own sigmoid, or a part of the softmax over the chosen. */
export const ROUTE_SOFTMAX = 0;
export const ROUTE_SIGMOID = 1;
export const ROUTE_CHOSEN = 2;

/** Words of a run of rows: expert, first place, rows. */
export const RUN_WORDS = 3;

export const routeExperts = defineKernel({
  name: 'route_experts',
  source: 'route_experts.hip',
  summary: 'the `used` experts of the highest score, by id, and their weights',
  arguments: [
    input('scores', 'f32', 'rows', 'experts'),
    input('bias', 'f32', 'experts'),
    output('ids', 'i32', 'rows', 'used'),
    output('weights', 'f32', 'rows', 'used'),
    i32('experts'),
    i32('used'),
    i32('scoring'),
    i32('normalizes'),
    f32('scale'),
  ],
  grid: [{ of: 'rows' }],
  order: `${ORDER.row}; over the chosen in rising order of ids`,
  tolerance: roundings(
    '(experts + 20) · 2⁻²⁴ · |weight|: a sum over all experts or the chosen, exponentials within 2 ulp',
    ({ experts }) => experts! + 20,
  ),
});

export const groupByExpert = defineKernel({
  name: 'group_by_expert',
  source: 'group_by_expert.hip',
  summary: 'places of rows, sorted by the experts that they are sent to; the run of places of each expert',
  arguments: [
    input('ids', 'i32', 'rows', 'used'),
    input('tokens', 'i32', '1'),
    output('runs', 'i32', 'experts', `${RUN_WORDS}`),
    inout('row_of', 'i32', 'places'),
    inout('place_of', 'i32', 'rows', 'used'),
    i32('experts'),
    i32('used'),
    i32('align'),
  ],
  grid: [{ of: 'experts' }],
  offsets32: ['rows * used'],
  tolerance: exact('whole numbers'),
});

export const combineExperts = defineKernel({
  name: 'combine_experts',
  source: 'combine_experts.hip',
  summary: 'x[t] = sum_i weights[t][i] * y[place_of[t][i]]',
  arguments: [
    input('y', 'f32', 'places', 'hidden'),
    input('place_of', 'i32', 'rows', 'used'),
    input('weights', 'f32', 'rows', 'used'),
    inout('x', 'f32', 'rows', 'hidden'),
    input('tokens', 'i32', '1'),
    i32('hidden'),
    i32('used'),
  ],
  grid: [{ of: 'rows' }],
  offsets32: ['rows * used'],
  order: ORDER.rising,
  tolerance: roundings('used · 2⁻²⁴ · sum |weight · y|: one chain', ({ used }) => used!),
});

export const biasAddExperts = defineKernel({
  name: 'bias_add_experts',
  source: 'bias_add_experts.hip',
  summary: 'y[place_of[t][i]][n] += bias[ids[t][i]][n]',
  arguments: [
    rowsApart('y_stride', inout('y', 'f32', 'places', 'out')),
    input('bias', 'f32', 'experts', 'out'),
    input('ids', 'i32', 'rows', 'used'),
    input('place_of', 'i32', 'rows', 'used'),
    input('tokens', 'i32', '1'),
    i32('out'),
    i32('y_stride'),
    i32('used'),
  ],
  grid: [{ of: 'pairs' }],
  tolerance: exact('one rounding, the same as the reference rounded to f32'),
});

/** What {@link swigluClamped}'s numbers are in gpt-oss; no file has them. */
export const CLAMPED_ALPHA = 1.702;
export const CLAMPED_LIMIT = 7;

export const swigluClamped = defineKernel({
  name: 'swiglu_clamped',
  source: 'swiglu_clamped.hip',
  summary: 'y = gate · sigmoid(alpha · gate) · (up + 1), the gate at most limit, up from -limit to limit',
  arguments: [
    input('gate_up', 'f32', 'rows', '2', 'ffn'),
    output('y', 'f32', 'rows', 'ffn'),
    i32('ffn'),
    f32('alpha'),
    f32('limit'),
  ],
  grid: [{ of: 'rows' }],
  tolerance: elementwise,
});

export const gateRows = defineKernel({
  name: 'gate_rows',
  source: 'gate_rows.hip',
  summary: 'y[t] *= sigmoid(gate[t])',
  arguments: [inout('y', 'f32', 'rows', 'columns'), input('gate', 'f32', 'rows'), i32('columns')],
  grid: [{ of: 'rows' }],
  tolerance: elementwise,
});

const runs = input('runs', 'i32', 'runs', `${RUN_WORDS}`);

/** {@link matmul} of each expert's matrix and its run of rows. */
export const matmulExperts = (type: WeightFloatType) => {
  const { order, tolerance } = matmul(type);
  return defineKernel({
    name: `matmul_experts_${type}`,
    source: 'matmul.hip',
    // In fragments on Hopper's.
    ...(type !== 'f32' && { on: ['host', 'portable'] as const }),
    summary: 'y[p][n] = sum_k weight[expert of p][n][k] * x[p][k]',
    arguments: [
      input('weight', type, 'experts', 'out', 'in'),
      input('x', 'f32', 'places', 'in'),
      rowsApart('y_stride', inout('y', 'f32', 'places', 'out')),
      runs,
      i32('out'),
      i32('in'),
      i32('y_stride'),
    ],
    grid: [{ of: 'runs' }, { of: 'out', per: 'waves' }, { of: 'rows', per: MATMUL_TOKENS }],
    order: order!,
    tolerance,
  });
};

/** {@link matmulQuantized} of each expert's matrix and its run of rows. */
export const matmulQuantizedExperts = (type: BlockType) => {
  const { blockElements, blockBytes } = blockFormat(type);
  const { order, tolerance } = matmulQuantized(type);
  return defineKernel({
    name: `matmul_experts_${type}`,
    source: 'matmul_quantized.hip',
    on: isPackedType(type) && blockElements > Q8_BLOCK ? 'host' : ['host', 'portable'],
    summary: 'y[p][n] = sum_k weight[expert of p][n][k] * x[p][k], weight in blocks, x as quantize_q8 makes it',
    arguments: [
      input('weight', 'u8', 'experts', 'out', 'blocks', `${blockBytes}`),
      aligned(4, input('x', 'u8', 'places', 'blocks', `${(blockElements / Q8_BLOCK) * Q8_BLOCK_BYTES}`)),
      rowsApart('y_stride', inout('y', 'f32', 'places', 'out')),
      runs,
      i32('out'),
      i32('blocks'),
      i32('y_stride'),
    ],
    grid: [{ of: 'runs' }, { of: 'out', per: MATMUL_QUANTIZED_ROWS }, { of: 'rows', per: MATMUL_QUANTIZED_TOKENS }],
    order: order!,
    tolerance,
  });
};

const packedArguments = [
  aligned(16, input('weight', 'u8', 'experts', 'out', 'row_bytes')),
  aligned(16, input('x', 'u8', 'places', 'blocks', `${Q8_BLOCK_BYTES}`)),
  rowsApart('y_stride', inout('y', 'f32', 'places', 'out')),
  runs,
  i32('out'),
  i32('blocks'),
  i32('y_stride'),
] as const;
const PACKED_SUMMARY =
  'y[p][n] = sum_k weight[expert of p][n][k] * x[p][k], weight as repack makes it, x as quantize_q8 does';

/** {@link matmulPacked} of each expert's matrix and its run of rows. */
export const matmulPackedExperts = (type: PackedType, rows: PackedRows) => {
  const { order, tolerance } = matmulPacked(type, rows);
  return defineKernel({
    name: `matmul_packed_experts_${packedInfix(rows)}${type}`,
    source: 'matmul_packed.hip',
    on: 'portable',
    summary: PACKED_SUMMARY,
    arguments: packedArguments,
    grid: [{ of: 'out', per: MATMUL_PACKED_ROWS }, { of: 'rows', per: rowsAtOnce(rows) }, { of: 'runs' }],
    multiples: PACKED_ROWS,
    offsets32: [`${PACKED_TOKENS} * blocks * ${Q8_BLOCK_BYTES}`],
    order: order!,
    tolerance,
  });
};

/** {@link matmulPackedTile} of each expert's matrix and its run of rows. */
export const matmulPackedExpertsTile = (type: PackedType) => {
  const { order, tolerance } = matmulPackedTile(type);
  return defineKernel({
    name: `matmul_packed_experts_tile_${type}`,
    source: 'matmul_packed_tile.hip',
    on: 'portable',
    summary: PACKED_SUMMARY,
    arguments: packedArguments,
    grid: [{ of: 'rows', per: PACKED_TILE }, { of: 'out', per: PACKED_TILE }, { of: 'runs' }],
    multiples: PACKED_ROWS,
    offsets32: [`${PACKED_TILE} * blocks * ${Q8_BLOCK_BYTES}`],
    order: order!,
    tolerance,
  });
};

/** {@link matmulTile} of each expert's matrix and its run of rows. */
export const matmulTileExperts = (type: TileType, form: TileForm) => {
  const { order, tolerance } = matmulTile(type, form);
  return defineKernel({
    name: `matmul_tile_experts_${tileSuffix(form, type)}`,
    source: 'matmul_tile.hip',
    on: 'portable',
    summary: 'y[p][n] = sum_k weight[expert of p][n][k] * x[p][k], x in the type of the weight',
    arguments: [
      aligned(16, input('weight', type, 'experts', 'out', 'in')),
      aligned(16, input('x', type, 'places', 'in')),
      rowsApart('y_stride', inout('y', 'f32', 'places', 'out')),
      runs,
      i32('out'),
      i32('in'),
      i32('y_stride'),
    ],
    grid: [{ of: 'rows', per: TILE_FORMS[form].tokens }, { of: 'out', per: TILE_FORMS[form].rows }, { of: 'runs' }],
    multiples: [['in', `${TILE_INPUT_MULTIPLE}`]],
    order: order!,
    tolerance,
  });
};

/** Dimension `chunks`: of a row. Rows copied to the places of their experts, as columns. */
export const sendColumns = (type: TileType) =>
  defineKernel({
    name: `send_columns_${type}`,
    source: 'convert_columns.hip',
    on: 'hopper',
    summary: 'y[place_of[t][i]] = x[t] in columns of 16-bit floats',
    arguments: [
      input('x', 'f32', 'rows', 'in'),
      columnsOf('y', type, 'y_rows'),
      input('place_of', 'i32', 'rows', 'used'),
      input('tokens', 'i32', '1'),
      saturatedCount,
      i32('in'),
      i32('y_rows'),
      i32('used'),
    ],
    grid: [{ of: 'in', per: COLUMNS_PART }, { of: 'pairs' }],
    multiples: [['y_rows', `${COLUMNS_MULTIPLE}`]],
    tolerance: exact('one rounding'),
  });

/** SwiGLU of the places that rows were sent to, as columns. */
export const swigluSentColumns = (type: TileType) =>
  defineKernel({
    name: `swiglu_sent_columns_${type}`,
    source: 'swiglu_columns.hip',
    on: 'hopper',
    summary: 'swiglu of each place that a row was sent to, in columns of 16-bit floats',
    arguments: [
      input('gate_up', 'f32', 'places', '2', 'ffn'),
      columnsOf('y', type, 'y_rows'),
      input('place_of', 'i32', 'rows', 'used'),
      input('tokens', 'i32', '1'),
      saturatedCount,
      i32('ffn'),
      i32('y_rows'),
      i32('used'),
    ],
    grid: [{ of: 'ffn', per: COLUMNS_PART }, { of: 'pairs' }],
    multiples: [['y_rows', `${COLUMNS_MULTIPLE}`]],
    tolerance: stored(type, swiglu.tolerance),
  });

/** {@link swigluClamped} of the places that rows were sent to, as columns. */
export const swigluClampedSentColumns = (type: TileType) => {
  const { grid, multiples, arguments: taken } = swigluSentColumns(type);
  return defineKernel({
    name: `swiglu_clamped_sent_columns_${type}`,
    source: 'swiglu_columns.hip',
    on: 'hopper',
    summary: 'swiglu_clamped of each place that a row was sent to, in columns of 16-bit floats',
    arguments: [...taken, f32('alpha'), f32('limit')],
    grid,
    multiples: multiples!,
    tolerance: stored(type, swigluClamped.tolerance),
  });
};

/** Forms of {@link linearExperts}: those of `linear` that bring each weight once a run. */
const LINEAR_EXPERT_FORMS = ['one', 'few', 'wide16', 'wide32', 'wide64', 'wide128'] as const;
type LinearExpertForm = (typeof LINEAR_EXPERT_FORMS)[number];

/** {@link linear} of each expert's matrix and its run of columns. */
export const linearExperts = (format: FragmentFormat, form: LinearExpertForm) => {
  const { order, tolerance } = linear(format, form);
  const { rows, columns } = LINEAR_FORMS[form];
  const isWide = columns > 8;
  return defineKernel({
    name: `linear_experts_${form}_${format}`,
    source: 'linear.hip',
    on: 'hopper',
    summary: 'y[p][n] = sum_k weight[expert of p][n][k] * x[p][k], weight as pack_fragments makes it, x in columns',
    ...(isWide && { threads: LINEAR_WIDE_THREADS, dynamicSharedBytes: LINEAR_WIDE_LDS }),
    arguments: [
      aligned(128, input('weight', 'u8', 'experts', 'tiles', 'chunks', `${tileBytes(format)}`)),
      columnsOf('x', fragmentInput(format), 'x_rows'),
      rowsApart('y_stride', inout('y', 'f32', 'places', 'out')),
      runs,
      i32('tiles'),
      i32('out'),
      i32('in'),
      i32('x_rows'),
      i32('y_stride'),
    ],
    grid: isWide
      ? [{ of: 'rows', per: columns }, { of: 'out', per: rows }, { of: 'runs' }]
      : [{ of: 'out', per: rows }, { of: '1' }, { of: 'runs' }],
    multiples: [['x_rows', `${COLUMNS_MULTIPLE}`]],
    order: order!,
    tolerance,
  });
};

/** How rows are sent to experts: most of each, and the runs and places that they make. */
export interface ExpertRows {
  readonly experts: number;
  /** Of a step. */
  readonly rows: StepCount;
  /** Of experts that have rows; `times` of {@link rows}. */
  readonly runs: StepCount;
  readonly places: number;
}

/** Rows of a step from which on experts have so many on average that a form for many is the faster. */
const fromRows = ({ experts, runs }: ExpertRows, average: number): number =>
  Math.ceil((average * experts) / (runs.times ?? 1));

/** y = weight of each row's expert · x, weights packed. */
export function launchMatmulPackedExperts(
  launch: Launch,
  type: PackedType,
  columns: number,
  sent: ExpertRows,
  values: Omit<ValuesOf<ReturnType<typeof matmulPackedExperts>>, 'blocks'>,
): void {
  const { experts, rows, runs: active, places } = sent;
  const all = { ...values, blocks: columns / Q8_BLOCK };
  const dims = { experts, rows, runs: active, places, row_bytes: packedRowBytes(type, columns) };
  const many = Math.max(2, fromRows(sent, MANY_PACKED));
  launch(matmulPackedExperts(type, 'one'), all, dims, { count: rows, atMost: 1 });
  launch(matmulPackedExperts(type, 'several'), all, dims, { count: rows, atLeast: 2, atMost: many - 1 });
  launch(matmulPackedExpertsTile(type), all, dims, { count: rows, atLeast: many });
}
/** Rows that an expert has on average from which on matrix units are the faster. */
const MANY_PACKED = 24;

/** y = weight of each row's expert · x, on matrix units. */
export function launchMatmulTileExperts(
  launch: Launch,
  type: TileType,
  sent: ExpertRows,
  values: ValuesOf<ReturnType<typeof matmulTileExperts>>,
): void {
  const { experts, rows, runs: active, places } = sent;
  const [some, many] = [Math.max(2, fromRows(sent, 12)), Math.max(3, fromRows(sent, 64))];
  const when: Readonly<Record<TileForm, LaunchCondition>> = {
    few: { count: rows, atMost: some - 1 },
    some: { count: rows, atLeast: some, atMost: many - 1 },
    many: { count: rows, atLeast: many },
  };
  const dims = { experts, rows, runs: active, places };
  for (const form of TILE_FORM_NAMES) launch(matmulTileExperts(type, form), values, dims, when[form]);
}

/** y = weight of each row's expert · x, weights in fragments. */
export function launchLinearExperts(
  launch: Launch,
  format: FragmentFormat,
  sent: ExpertRows,
  values: Omit<ValuesOf<ReturnType<typeof linearExperts>>, 'tiles'>,
): void {
  const { experts, rows, runs: active, places } = sent;
  const dims = { experts, rows, runs: active, places, chunks: chunksOf(values.in) };
  const all = { ...values, tiles: tilesOf(values.out) };
  // Runs of up to 8 rows on average: wide32, which brings each weight once for 32.
  const bounds = [1, 8, 16, Math.max(17, fromRows(sent, 16)), 0, 0];
  bounds[4] = Math.max((bounds[3] as number) + 1, fromRows(sent, 48));
  bounds[5] = rows.max;
  for (const [i, form] of LINEAR_EXPERT_FORMS.entries()) {
    const [atLeast, atMost] = [i === 0 ? 0 : (bounds[i - 1] as number) + 1, bounds[i] as number];
    if (atLeast > rows.max) break;
    launch(linearExperts(format, form), all, dims, { count: rows, atLeast, atMost: Math.min(atMost, rows.max) });
  }
}

export const expertsContracts: readonly KernelContract[] = [
  routeExperts,
  groupByExpert,
  combineExperts,
  biasAddExperts,
  swigluClamped,
  gateRows,
  ...WEIGHT_FLOAT_TYPES.map(matmulExperts),
  ...BLOCK_TYPES.map(matmulQuantizedExperts),
  ...PACKED_TYPES.flatMap((type) => [
    matmulPackedExperts(type, 'one'),
    matmulPackedExperts(type, 'several'),
    matmulPackedExpertsTile(type),
  ]),
  ...TILE_TYPES.flatMap((type) => TILE_FORM_NAMES.map((form) => matmulTileExperts(type, form))),
  ...TILE_TYPES.flatMap((type) => [sendColumns(type), swigluSentColumns(type), swigluClampedSentColumns(type)]),
  ...FRAGMENT_FORMATS.flatMap((format) => LINEAR_EXPERT_FORMS.map((form) => linearExperts(format, form))),
];
