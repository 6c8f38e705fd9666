import { defineKernel, i32, inout, input, type KernelContract } from '../device/contract.js';
import { exact } from '../device/tolerance.js';
import { SWIGLU_PART } from './swiglu.js';

export const residualAdd = defineKernel({
  name: 'residual_add',
  source: 'residual_add.hip',
  summary: 'x += y',
  arguments: [inout('x', 'f32', 'rows', 'hidden'), input('y', 'f32', 'rows', 'hidden'), i32('hidden')],
  grid: [{ of: 'rows' }, { of: 'hidden', per: SWIGLU_PART }],
  tolerance: exact('one rounding, the same as the reference rounded to f32'),
});

export const residualAddContracts: readonly KernelContract[] = [residualAdd];
