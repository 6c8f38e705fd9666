import { aligned, defineKernel, i32, inout, input, type KernelContract, rowsApart } from '../device/contract.js';
import { RUN_WORDS } from './experts.js';
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
import { COLUMNS_MULTIPLE, columnsOf } from './hopper/columns.js';
import {
  chunksOf,
  FRAGMENT_FORMATS,
  type FragmentFormat,
  fragmentInput,
  tileBytes,
  tilesOf,
} from './hopper/fragments.js';
import { LINEAR_VARIANTS, LINEAR_WIDE_LDS, LINEAR_WIDE_THREADS, linear } from './hopper/linear.js';
import type { Launch, LaunchCondition, StepCount, ValuesOf } from './launch-plan.js';
import { matmul, matmulGrid } from './matmul.js';
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
  TILE_INPUT_MULTIPLE,
  TILE_VARIANT_NAMES,
  TILE_VARIANTS,
  type TileVariant,
  tileSuffix,
} from './matmul-tile.js';
import { packedRowBytes } from './repack.js';

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
    grid: [...matmulGrid, { of: 'runs' }],
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
    grid: [{ of: 'out', per: MATMUL_QUANTIZED_ROWS }, { of: 'rows', per: MATMUL_QUANTIZED_TOKENS }, { of: 'runs' }],
    order: order!,
    tolerance,
  });
};

/**
 * {@link matmulQuantizedExperts} in the order of {@link matmulPackedExperts} on a GPU: its bits, from the host. `lanes` of the
 * GPU's waves: 32 or 64.
 */
export const matmulLanesExperts = (type: PackedType) => {
  const { summary, arguments: taken, grid, tolerance } = matmulQuantizedExperts(type);
  return defineKernel({
    name: `matmul_lanes_experts_${type}`,
    source: 'matmul_quantized.hip',
    on: 'host',
    isCpuOnly: true,
    summary: `${summary}, in the order of a GPU`,
    arguments: [...taken, i32('lanes')],
    grid,
    order: matmulPacked(type, 'one').order!,
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
    // Hopper's take matrices that stream from the host so, a row alone never.
    on: rows === 'one' ? 'portable' : 'gpu',
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
    on: 'gpu',
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
export const matmulTileExperts = (type: TileType, form: TileVariant) => {
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
    grid: [
      { of: 'rows', per: TILE_VARIANTS[form].tokens },
      { of: 'out', per: TILE_VARIANTS[form].rows },
      { of: 'runs' },
    ],
    multiples: [['in', `${TILE_INPUT_MULTIPLE}`]],
    order: order!,
    tolerance,
  });
};

/** Rows of a run that a block of the form `several` multiplies at a time, and the LDS that it asks for. */
export const LINEAR_SEVERAL_ROWS = 16;
export const LINEAR_SEVERAL_LDS = 73_728;

/** Forms of {@link linearExperts}: those of `linear` that bring each weight once a run. */
const LINEAR_EXPERT_VARIANTS = ['one', 'few', 'several', 'wide64', 'wide128'] as const;
type LinearExpertVariant = (typeof LINEAR_EXPERT_VARIANTS)[number];

/**
 * Rows that an expert has on average up to which each form is taken; few and several take runs of any length, eight or
 * sixteen rows at a time.
 */
const MOST_LINEAR: Readonly<Record<LinearExpertVariant, number>> = {
  one: 0,
  few: 6,
  several: 28,
  wide64: 56,
  wide128: Number.POSITIVE_INFINITY,
};

/** {@link linear} of each expert's matrix and its run of columns. */
export const linearExperts = (format: FragmentFormat, form: LinearExpertVariant) => {
  const { order, tolerance } = linear(format, form === 'several' ? 'few' : form);
  const { rows, columns } = LINEAR_VARIANTS[form === 'several' ? 'few' : form];
  const isWide = columns > 8;
  return defineKernel({
    name: `linear_experts_${form}_${format}`,
    source: 'hopper/linear.hip',
    on: 'hopper',
    summary: 'y[p][n] = sum_k weight[expert of p][n][k] * x[p][k], weight as pack_fragments makes it, x in columns',
    ...(isWide && { threads: LINEAR_WIDE_THREADS, dynamicSharedBytes: LINEAR_WIDE_LDS }),
    ...(form === 'several' && { dynamicSharedBytes: LINEAR_SEVERAL_LDS }),
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

/** Routing of rows to experts: rows sent to each at most, and the runs and places that they make. */
export interface ExpertRows {
  readonly experts: number;
  /** Rows of a step. */
  readonly rows: StepCount;
  /** Experts that have rows; `times` of {@link rows}. */
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
  launch(matmulPackedExperts(type, 'one'), all, dims, { count: rows, atLeast: 1, atMost: 1 });
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
  const when: Readonly<Record<TileVariant, LaunchCondition>> = {
    few: { count: rows, atMost: some - 1 },
    some: { count: rows, atLeast: some, atMost: many - 1 },
    many: { count: rows, atLeast: many },
  };
  const dims = { experts, rows, runs: active, places };
  for (const form of TILE_VARIANT_NAMES) launch(matmulTileExperts(type, form), values, dims, when[form]);
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
  let atLeast = 0;
  for (const [form, average] of Object.entries(MOST_LINEAR) as [LinearExpertVariant, number][]) {
    const most = form === 'one' ? 1 : Math.min(rows.max, fromRows(sent, average));
    if (atLeast > most) continue;
    launch(linearExperts(format, form), all, dims, { count: rows, atLeast, atMost: most });
    atLeast = most + 1;
  }
}

export const expertProductContracts: readonly KernelContract[] = [
  ...WEIGHT_FLOAT_TYPES.map(matmulExperts),
  ...BLOCK_TYPES.map(matmulQuantizedExperts),
  ...PACKED_TYPES.map(matmulLanesExperts),
  ...PACKED_TYPES.flatMap((type) => [
    matmulPackedExperts(type, 'one'),
    matmulPackedExperts(type, 'several'),
    matmulPackedExpertsTile(type),
  ]),
  ...TILE_TYPES.flatMap((type) => TILE_VARIANT_NAMES.map((form) => matmulTileExperts(type, form))),
  ...FRAGMENT_FORMATS.flatMap((format) => LINEAR_EXPERT_VARIANTS.map((form) => linearExperts(format, form))),
];
