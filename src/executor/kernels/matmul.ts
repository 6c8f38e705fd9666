import {
  defineKernel,
  type GridDim,
  i32,
  inout,
  input,
  type KernelContract,
  rowsApart,
  variants,
} from '../device/contract.js';
import { roundings } from '../device/tolerance.js';
import { WEIGHT_FLOAT_TYPES, type WeightFloatType } from './formats.js';
import { ORDER } from './reduction-order.js';

/** Rows of x that one block multiplies. */
export const MATMUL_TOKENS = 64;
/** Rows of the weight, and of x, that one block multiplies on the host. */
export const MATMUL_HOST_ROWS = 24;
export const MATMUL_HOST_TOKENS = 128;

/** Blocks by rows of the weight and of x. */
export const matmulGrid: readonly GridDim[] = [
  { of: 'out', per: 'waves', perOnHost: MATMUL_HOST_ROWS },
  { of: 'rows', per: MATMUL_TOKENS, perOnHost: MATMUL_HOST_TOKENS },
];

export const matmul = variants((type: WeightFloatType) =>
  defineKernel({
    name: `matmul_${type}`,
    source: 'matmul.hip',
    // In fragments on Hopper's.
    ...(type === 'bf16' && { on: ['host', 'portable'] as const }),
    summary: 'y[t][n] = sum_k weight[n][k] * x[t][k]',
    arguments: [
      input('weight', type, 'out', 'in'),
      rowsApart('x_stride', input('x', 'f32', 'rows', 'in')),
      rowsApart('y_stride', inout('y', 'f32', 'rows', 'out')),
      input('tokens', 'i32', '1'),
      i32('out'),
      i32('in'),
      i32('x_stride'),
      i32('y_stride'),
    ],
    grid: matmulGrid,
    order: ORDER.dot,
    tolerance: roundings(
      '(in / 32 + 24) · 2⁻²⁴ · sum |weight · x|: 32 or more partial sums of in / 32 terms, and a tail of at most 15',
      (sizes) => sizes.in! / 32 + 24,
    ),
  }),
);

export const matmulContracts: readonly KernelContract[] = [...WEIGHT_FLOAT_TYPES.map(matmul)];
