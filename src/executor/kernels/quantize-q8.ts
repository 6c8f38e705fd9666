import { aligned, defineKernel, i32, input, type KernelContract, output } from '../device/contract.js';
import { exact } from '../device/tolerance.js';
import { Q8_BLOCK, Q8_BLOCK_BYTES } from './formats.js';

/** Elements of a row that one block quantizes. */
export const QUANTIZE_PART = 2048;

export const quantizeQ8 = defineKernel({
  name: 'quantize_q8',
  source: 'quantize_q8.hip',
  summary: 'y = round(x · 127 / max |x|) and the scale max |x| / 127 of each 32 elements',
  arguments: [
    aligned(16, input('x', 'f32', 'rows', 'in')),
    aligned(4, output('y', 'u8', 'rows', 'blocks', `${Q8_BLOCK_BYTES}`)),
    i32('in'),
  ],
  grid: [{ of: 'rows' }, { of: 'in', per: QUANTIZE_PART }],
  multiples: [['in', `${Q8_BLOCK}`]],
  tolerance: exact('one rounding an operation, the same as the reference rounded to f32'),
});

export const quantizeQ8Contracts: readonly KernelContract[] = [quantizeQ8];
