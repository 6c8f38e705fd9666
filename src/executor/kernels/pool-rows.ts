import { aligned, defineKernel, i32, inout, input, type KernelContract } from '../device/contract.js';
import { exact } from '../device/tolerance.js';
import { ORDER } from './reduction-order.js';

/** Elements of a row that one block of pool_rows computes. */
export const POOL_PART = 256;

/** Words of a slice to pool: slot, first row, rows, rows of the sequence before them, and what becomes of them. */
export const POOL_WORDS = 5;

/** The mean of the sequence, whose last slice it is; its sums so far; its first row; its last. */
export const POOL_MEAN = 0;
export const POOL_MEAN_SO_FAR = 1;
export const POOL_FIRST = 2;
export const POOL_LAST = 3;

export const poolRows = defineKernel({
  name: 'pool_rows',
  source: 'pool_rows.hip',
  summary: 'y[s] = the mean of the rows of slice s and those before it, its first row or its last',
  arguments: [
    input('x', 'f32', 'rows', 'hidden'),
    input('pools', 'i32', 'pools', `${POOL_WORDS}`),
    aligned(8, inout('sums', 'u8', 'slots', '8 * hidden')),
    inout('y', 'f32', 'pools', 'hidden'),
    i32('hidden'),
  ],
  grid: [{ of: 'pools' }, { of: 'hidden', per: POOL_PART }],
  order: ORDER.positions,
  tolerance: exact('sums in f64 and in one order, rounded once to f32: the reference adds in the same order'),
});

export const poolRowsContracts: readonly KernelContract[] = [poolRows];
