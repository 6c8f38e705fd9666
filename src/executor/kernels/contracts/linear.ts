import { defineKernel, i32, inout, input, type KernelContract, output, rowsApart } from '../contract.js';
import { ORDER } from '../reduction-order.js';
import { roundings } from '../tolerance.js';
import { type FloatType, matmul } from './forward.js';

/** Rows and columns of y that one block of gemm computes. */
export const GEMM_TILE = 64;

export const gateUpSwiglu = (type: FloatType) =>
  defineKernel({
    name: `gate_up_swiglu_${type}`,
    source: 'twins/gate_up_swiglu.hip',
    summary: 'y[t][n] = silu(gate[n] · x[t]) * (up[n] · x[t])',
    arguments: [
      input('weight', type, '2', 'ffn', 'hidden'),
      input('x', 'f32', 'rows', 'hidden'),
      inout('y', 'f32', 'rows', 'ffn'),
      input('tokens', 'i32', '1'),
      i32('ffn'),
      i32('hidden'),
    ],
    grid: [
      { of: 'ffn', per: 'waves' },
      { of: 'rows', per: 64 },
    ],
    order: ORDER.dot,
    tolerance: roundings(
      '(hidden / 32 + 40) · 2⁻²⁴ · (1.1 · sum |gate · x| · |up| + |silu| · sum |up · x|): the error of each dot ' +
        'product times the other factor; silu changes by at most 1.1 times its argument’s change',
      ({ hidden }) => hidden! / 32 + 40,
    ),
  });

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

export const smallGemm = defineKernel({
  name: 'small_gemm',
  source: 'twins/small_gemm.hip',
  summary: 'c = a b, row-major, any size',
  arguments: [
    input('a', 'f32', 'm', 'k'),
    input('b', 'f32', 'k', 'n'),
    output('c', 'f32', 'm', 'n'),
    i32('m'),
    i32('n'),
    i32('k'),
  ],
  grid: [{ of: 'm * n', per: 'block' }],
  order: ORDER.rising,
  tolerance: roundings(
    '(2 + 4 · √k) · 2⁻²⁴ · sum |a · b|: a sum in order strays by 4 · √k roundings',
    ({ k }) => 2 + 4 * Math.sqrt(k!),
  ),
});

/** Products of matrices beside matmul. */
export const linearContracts: readonly KernelContract[] = [
  gateUpSwiglu('f32'),
  gateUpSwiglu('f16'),
  gemm('f32'),
  gemm('f16'),
  gemm('bf16'),
  smallGemm,
];
