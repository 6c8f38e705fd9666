import { aligned, defineKernel, i32, input, type KernelContract, output, variants } from '../device/contract.js';
import { exact } from '../device/tolerance.js';
import { TILE_TYPES, type TileType } from './formats.js';

/** Elements of a row that one block rounds. */
export const CONVERT_PART = 1024;

export const convert = variants((type: TileType) =>
  defineKernel({
    name: `convert_${type}`,
    source: 'convert.hip',
    // The host unpacks weights with the first: `rocmforge verify --beside-host`.
    on: type === 'f16' ? ['host', 'portable'] : 'portable',
    summary: 'y = x rounded to 16 bits, to nearest, ties to even',
    arguments: [input('x', 'f32', 'rows', 'in'), aligned(8, output('y', type, 'rows', 'in')), i32('in')],
    grid: [{ of: 'in', per: CONVERT_PART }, { of: 'rows' }],
    tolerance: exact('one rounding'),
  }),
);

export const convertContracts: readonly KernelContract[] = [...TILE_TYPES.map(convert)];
