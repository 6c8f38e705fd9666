import { defineKernel, i32, inout, input, type KernelContract } from '../device/contract.js';
import { exact } from '../device/tolerance.js';
import { SWIGLU_PART } from './swiglu.js';

export const biasAdd = defineKernel({
  name: 'bias_add',
  source: 'bias_add.hip',
  summary: 'y[t][n] += bias[n]',
  arguments: [inout('y', 'f32', 'rows', 'out'), input('bias', 'f32', 'out'), i32('out')],
  grid: [{ of: 'rows' }, { of: 'out', per: SWIGLU_PART }],
  tolerance: exact('one rounding, the same as the reference rounded to f32'),
});

export const biasAddContracts: readonly KernelContract[] = [biasAdd];
