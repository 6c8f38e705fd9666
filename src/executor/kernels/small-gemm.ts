import { defineKernel, i32, input, type KernelContract, output } from '../device/contract.js';
import { roundings } from '../device/tolerance.js';
import { ORDER } from './reduction-order.js';

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

export const smallGemmContracts: readonly KernelContract[] = [smallGemm];
