import { defineKernel, i32, input, type KernelContract, output } from '../device/contract.js';
import { moved } from '../device/tolerance.js';

export const joinRows = defineKernel({
  name: 'join_rows',
  source: 'join_rows.hip',
  summary: 'y[r] = [a[r], b[r]]',
  arguments: [
    input('a', 'f32', 'rows', 'columns'),
    input('b', 'f32', 'rows', 'columns'),
    output('y', 'f32', 'rows', '2', 'columns'),
    i32('columns'),
  ],
  grid: [{ of: 'rows' }],
  tolerance: moved,
});

export const joinRowsContracts: readonly KernelContract[] = [joinRows];
