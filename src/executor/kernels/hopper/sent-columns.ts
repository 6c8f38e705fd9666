import { defineKernel, f32, i32, input, type KernelContract, variants } from '../../device/contract.js';
import { exact, stored } from '../../device/tolerance.js';
import { swigluClamped } from '../experts.js';
import { TILE_TYPES, type TileType } from '../formats.js';
import { geglu, reluSquared, swiglu } from '../swiglu.js';
import { COLUMNS_MULTIPLE, COLUMNS_PART, columnsOf, saturatedCount } from './columns.js';

/** Dimension `chunks`: of a row. Rows copied to the places of their experts, as columns. */
export const sendColumns = variants((type: TileType) =>
  defineKernel({
    name: `send_columns_${type}`,
    source: 'hopper/convert_columns.hip',
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
  }),
);

/** SwiGLU of the places that rows were sent to, as columns. */
export const swigluSentColumns = variants((type: TileType) =>
  defineKernel({
    name: `swiglu_sent_columns_${type}`,
    source: 'hopper/swiglu_columns.hip',
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
  }),
);

/** GEGLU of the places that rows were sent to, as columns. */
export const gegluSentColumns = (type: TileType) => {
  const { grid, multiples, arguments: taken } = swigluSentColumns(type);
  return defineKernel({
    name: `geglu_sent_columns_${type}`,
    source: 'hopper/swiglu_columns.hip',
    on: 'hopper',
    summary: 'geglu of each place that a row was sent to, in columns of 16-bit floats',
    arguments: taken,
    grid,
    multiples: multiples!,
    tolerance: stored(type, geglu.tolerance),
  });
};

/** {@link reluSquared} of the places that rows were sent to, as columns. */
export const reluSquaredSentColumns = (type: TileType) => {
  const { grid, multiples, arguments: taken } = swigluSentColumns(type);
  const [, y, ...rest] = taken;
  return defineKernel({
    name: `relu_squared_sent_columns_${type}`,
    source: 'hopper/swiglu_columns.hip',
    on: 'hopper',
    summary: 'relu_squared of each place that a row was sent to, in columns of 16-bit floats',
    arguments: [input('up', 'f32', 'places', 'ffn'), y, ...rest],
    grid,
    multiples: multiples!,
    tolerance: stored(type, reluSquared.tolerance),
  });
};

/** {@link swigluClamped} of the places that rows were sent to, as columns. */
export const swigluClampedSentColumns = (type: TileType) => {
  const { grid, multiples, arguments: taken } = swigluSentColumns(type);
  return defineKernel({
    name: `swiglu_clamped_sent_columns_${type}`,
    source: 'hopper/swiglu_columns.hip',
    on: 'hopper',
    summary: 'swiglu_clamped of each place that a row was sent to, in columns of 16-bit floats',
    arguments: [...taken, f32('alpha'), f32('limit')],
    grid,
    multiples: multiples!,
    tolerance: stored(type, swigluClamped.tolerance),
  });
};

export const sentColumnsContracts: readonly KernelContract[] = TILE_TYPES.flatMap((type) => [
  sendColumns(type),
  swigluSentColumns(type),
  gegluSentColumns(type),
  reluSquaredSentColumns(type),
  swigluClampedSentColumns(type),
]);
