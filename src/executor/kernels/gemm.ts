import { defineKernel, i32, inout, input, type KernelContract, rowsApart } from '../device/contract.js';
import { roundings } from '../device/tolerance.js';
import { type FloatType, WEIGHT_FLOAT_TYPES } from './formats.js';
import { matmul } from './matmul.js';
import { ORDER } from './reduction-order.js';

/** Rows and columns of y that one block of gemm computes. */
export const GEMM_TILE = 64;

export const gemm = (type: FloatType | 'bf16') =>
  defineKernel({
    name: `gemm_${type}`,
    source: 'twins/gemm.hip',
    summary: matmul('f32').summary,
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
    grid: [
      { of: 'out', per: GEMM_TILE },
      { of: 'rows', per: GEMM_TILE },
    ],
    order: ORDER.rising,
    tolerance: roundings(
      '(2 + 4 · √in) · 2⁻²⁴ · sum |weight · x|: a sum in order strays by 4 · √in roundings',
      (sizes) => 2 + 4 * Math.sqrt(sizes.in!),
    ),
  });

export const gemmContracts: readonly KernelContract[] = [...WEIGHT_FLOAT_TYPES.map(gemm)];
