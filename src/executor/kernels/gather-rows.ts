import { defineKernel, i32, input, type KernelContract, output } from '../device/contract.js';
import { moved } from '../device/tolerance.js';

export const gatherRows = defineKernel({
  name: 'gather_rows',
  source: 'gather_rows.hip',
  summary: 'y[s] = x[index[s]]',
  arguments: [
    input('x', 'f32', 'tokens', 'hidden'),
    output('y', 'f32', 'samples', 'hidden'),
    input('index', 'i32', 'samples'),
    i32('hidden'),
  ],
  grid: [{ of: 'samples' }],
  tolerance: moved,
});

export const gatherRowsContracts: readonly KernelContract[] = [gatherRows];
