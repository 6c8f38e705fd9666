import {
  aligned,
  defineKernel,
  i32,
  inout,
  input,
  type KernelContract,
  rowsApart,
  variants,
} from '../../device/contract.js';
import { stored } from '../../device/tolerance.js';
import type { Launch, LaunchCondition, Rows, ValuesOf } from '../launch-plan.js';
import { ORDER } from '../reduction-order.js';
import { COLUMNS_MULTIPLE, columnsOf, saturatedCount } from './columns.js';
import {
  chunksOf,
  FRAGMENT_CHUNK,
  FRAGMENT_FORMATS,
  FRAGMENT_TILE_ROWS,
  type FragmentFormat,
  fragmentInput,
  fragmentRoundings,
  fragmentWeight,
  tilesOf,
} from './fragments.js';
import { fitsRow, linearRow } from './linear-decode.js';

/** Threads of a block of the wide forms, and LDS that it asks for when it is launched. */
export const LINEAR_WIDE_THREADS = 384;
export const LINEAR_WIDE_LDS = 225_280;

/**
 * Forms of the linear layer on Hopper, all with the same bits: rows of the weight and columns that a block computes.
 * Up to wide128 the two halves of a block share the segments of k, in `many` each has rows of its own.
 */
export const LINEAR_VARIANTS = {
  one: { rows: 16, columns: 1 },
  few: { rows: 16, columns: 8 },
  wide16: { rows: 64, columns: 16 },
  wide32: { rows: 64, columns: 32 },
  wide64: { rows: 64, columns: 64 },
  wide128: { rows: 64, columns: 128 },
  many: { rows: 128, columns: 128 },
} as const;
export type LinearVariant = keyof typeof LINEAR_VARIANTS;
const VARIANT_NAMES: readonly LinearVariant[] = Object.keys(LINEAR_VARIANTS) as LinearVariant[];

const isWide = (form: LinearVariant): boolean => LINEAR_VARIANTS[form].columns > 8;

/** Blocks of 128 rows and columns that fill an H200: for fewer, `many` leaves multiprocessors idle. */
const FILLING = 128;

/** The steps for whose rows a form is the fastest, measured on an H200, when `out` rows of the weight are computed. */
export function linearVariantRows({ count }: Rows, form: LinearVariant, out: number): LaunchCondition {
  const most = COLUMNS_MULTIPLE * Math.max(0, Math.floor((FILLING * COLUMNS_MULTIPLE) / out) - 1);
  const halved = Math.max(64, most);
  switch (form) {
    case 'one':
      return { count, atLeast: 1, atMost: 1 };
    case 'few':
      return { count, atLeast: 2, atMost: 8 };
    case 'wide16':
      return { count, atLeast: 9, atMost: 16 };
    case 'wide32':
      return { count, atLeast: 17, atMost: 32 };
    case 'wide64':
      return { count, atLeast: 33, atMost: 64 };
    case 'wide128':
      return { count, atLeast: 65, atMost: halved };
    default:
      return { count, atLeast: halved + 1 };
  }
}

/** Dimension `chunks`: of a row. */
export const linear = variants((format: FragmentFormat, form: LinearVariant) =>
  defineKernel({
    name: `linear_${form}_${format}`,
    source: 'hopper/linear.hip',
    on: 'hopper',
    summary: 'y[t][n] (+)= sum_k weight[n][k] * x[t][k], weight as pack_fragments makes it, x in columns',
    ...(isWide(form) && { threads: LINEAR_WIDE_THREADS, dynamicSharedBytes: LINEAR_WIDE_LDS }),
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
    grid: isWide(form)
      ? [
          { of: 'rows', per: LINEAR_VARIANTS[form].columns },
          { of: 'out', per: LINEAR_VARIANTS[form].rows },
        ]
      : [{ of: 'out', per: LINEAR_VARIANTS[form].rows }],
    multiples: [['x_rows', `${COLUMNS_MULTIPLE}`]],
    order: ORDER.halves,
    tolerance: fragmentRoundings(format),
  }),
);

/** Dimensions `chunks` and `ffn_chunks`: of a row of x and of y. */
export const linearGated = variants((format: FragmentFormat) =>
  defineKernel({
    name: `linear_gated_${format}`,
    source: 'hopper/linear_gated.hip',
    on: 'hopper',
    summary: 'y[t][n] = silu(gate[n] · x[t]) * (up[n] · x[t]) in columns',
    threads: LINEAR_WIDE_THREADS,
    dynamicSharedBytes: LINEAR_WIDE_LDS,
    arguments: [
      fragmentWeight(format, '2', 'tiles'),
      columnsOf('x', fragmentInput(format), 'x_rows'),
      aligned(128, inout('y', fragmentInput(format), 'ffn_chunks', 'x_rows', `${FRAGMENT_CHUNK}`)),
      input('tokens', 'i32', '1'),
      saturatedCount,
      i32('tiles'),
      i32('ffn'),
      i32('hidden'),
      i32('x_rows'),
    ],
    grid: [
      { of: 'rows', per: COLUMNS_MULTIPLE },
      { of: 'ffn', per: FRAGMENT_TILE_ROWS },
    ],
    multiples: [
      ['x_rows', `${COLUMNS_MULTIPLE}`],
      ['ffn', `${FRAGMENT_TILE_ROWS}`],
    ],
    order: ORDER.halves,
    tolerance: stored(fragmentInput(format), fragmentRoundings(format)),
  }),
);

/** y = weight · x, or that added to y, in the fastest form for each number of rows. */
export function launchLinear(
  launch: Launch,
  format: FragmentFormat,
  rows: Rows,
  values: Omit<ValuesOf<ReturnType<typeof linear>>, 'tokens' | 'tiles'>,
): void {
  const all = { ...values, tokens: rows.present, tiles: tilesOf(values.out) };
  const dims = { rows: rows.count, chunks: chunksOf(values.in) };
  for (const form of VARIANT_NAMES) {
    const when = linearVariantRows(rows, form, values.out);
    if ((when.atLeast ?? 0) > (when.atMost ?? Number.POSITIVE_INFINITY)) continue;
    if (form === 'one' && fitsRow(values.in)) launch(linearRow(format), all, dims, when);
    else launch(linear(format, form), all, dims, when);
  }
}

/** Rows from which on gate, up and SwiGLU are one launch. */
const GATED_ROWS = 65;

export function launchLinearGated(
  launch: Launch,
  format: FragmentFormat,
  { count, present }: Rows,
  values: Omit<ValuesOf<ReturnType<typeof linearGated>>, 'tokens' | 'tiles'>,
): void {
  const dims = { rows: count, chunks: chunksOf(values.hidden), ffn_chunks: chunksOf(values.ffn) };
  const all = { ...values, tokens: present, tiles: tilesOf(values.ffn) };
  launch(linearGated(format), all, dims, { count, atLeast: GATED_ROWS });
}

/** The steps in which {@link launchLinearGated} launches nothing. */
export const linearGatedApart = ({ count }: Rows): LaunchCondition => ({ count, atMost: GATED_ROWS - 1 });

export const linearContracts: readonly KernelContract[] = [
  ...FRAGMENT_FORMATS.flatMap((format) => [...VARIANT_NAMES.map((form) => linear(format, form)), linearGated(format)]),
];
