import { aligned, defineKernel, f32, i32, inout, input, type KernelContract, variants } from '../../device/contract.js';
import { exact, stored } from '../../device/tolerance.js';
import { TILE_TYPES, type TileType } from '../formats.js';
import { ORDER } from '../reduction-order.js';
import { rmsNorm } from '../rms-norm.js';
import { swiglu } from '../swiglu.js';
import { FRAGMENT_CHUNK } from './fragments.js';

/** Elements of a row that one block of convert_columns and swiglu_columns writes. */
export const COLUMNS_PART = 2048;

/** Columns that a wide block reads: what `y_rows` and `x_rows` are multiples of. */
export const COLUMNS_MULTIPLE = 128;

/** The rows that columns of so many rows have room for. */
export const columnRows = (rows: number): number => Math.ceil(rows / COLUMNS_MULTIPLE) * COLUMNS_MULTIPLE;

/** Activations as Hopper's matrix units take them: `kernels/forge/hopper/columns.h`. Dimension `chunks`: of a row. */
export const columnsOf = <const N extends string, const R extends string>(name: N, type: TileType, rows: R) =>
  aligned(128, inout(name, type, 'chunks', rows, `${FRAGMENT_CHUNK}`));

/** Counter of elements beyond f16's range, which are replaced by its largest number. */
export const saturatedCount = inout('saturated', 'i32', '1');

const multiples = [['y_rows', `${COLUMNS_MULTIPLE}`]] as const;

export const convertColumns = variants((type: TileType) =>
  defineKernel({
    name: `convert_columns_${type}`,
    source: 'hopper/convert_columns.hip',
    on: 'hopper',
    summary: 'y = x rounded to 16 bits, to nearest, ties to even; beyond f16’s range its largest number, counted',
    arguments: [
      input('x', 'f32', 'rows', 'in'),
      columnsOf('y', type, 'y_rows'),
      saturatedCount,
      i32('in'),
      i32('y_rows'),
    ],
    grid: [{ of: 'in', per: COLUMNS_PART }, { of: 'rows' }],
    multiples,
    tolerance: exact('one rounding'),
  }),
);

export const rmsNormColumns = variants((type: TileType) =>
  defineKernel({
    name: `rms_norm_columns_${type}`,
    source: 'hopper/rms_norm_columns.hip',
    on: 'hopper',
    summary: 'rms_norm, in columns of 16-bit floats',
    arguments: [
      aligned(16, input('x', 'f32', 'rows', 'hidden')),
      aligned(16, input('weight', 'f32', 'hidden')),
      columnsOf('y', type, 'y_rows'),
      saturatedCount,
      i32('hidden'),
      i32('y_rows'),
      f32('eps'),
    ],
    grid: [{ of: 'rows' }],
    multiples,
    order: ORDER.row,
    tolerance: stored(type, rmsNorm.tolerance),
  }),
);

export const swigluColumns = variants((type: TileType) =>
  defineKernel({
    name: `swiglu_columns_${type}`,
    source: 'hopper/swiglu_columns.hip',
    on: 'hopper',
    summary: 'swiglu, in columns of 16-bit floats',
    arguments: [
      input('gate_up', 'f32', 'rows', '2', 'ffn'),
      columnsOf('y', type, 'y_rows'),
      saturatedCount,
      i32('ffn'),
      i32('y_rows'),
    ],
    grid: [{ of: 'ffn', per: COLUMNS_PART }, { of: 'rows' }],
    multiples,
    tolerance: stored(type, swiglu.tolerance),
  }),
);

export const columnsContracts: readonly KernelContract[] = [
  ...TILE_TYPES.flatMap((type) => [convertColumns(type), rmsNormColumns(type), swigluColumns(type)]),
];
