import { defineKernel, i32, input, type KernelContract, output } from '../device/contract.js';
import { exact } from '../device/tolerance.js';

export const argmax = defineKernel({
  name: 'argmax',
  source: 'twins/argmax.hip',
  summary: 'index[r] = the column of the row’s largest element; ties to the lower column',
  arguments: [input('x', 'f32', 'rows', 'columns'), output('index', 'i32', 'rows'), i32('columns')],
  grid: [{ of: 'rows' }],
  tolerance: exact('elements are compared, not computed'),
});

export const argmaxContracts: readonly KernelContract[] = [argmax];
