import { aligned, defineKernel, i32, input, type KernelContract, output } from '../device/contract.js';
import { exact } from '../device/tolerance.js';

/** Words of a part in its table: the address of block 0's in two, words from a block to the next, and words of a block. */
export const SUMMED_PART_WORDS = 4;

/** Words of a part's checksum. */
export const PART_SUM_WORDS = 2;

/** Checksums of KV blocks, or of snapshots of recurrent states, over all the buffers that hold a part of each. */
export const blockSums = defineKernel({
  name: 'block_sums',
  source: 'block_sums.hip',
  summary: 'y[b][p] = a checksum, of two words, of the first rows[b] rows of part p of block blocks[b]',
  arguments: [
    input('blocks', 'i32', 'count'),
    input('rows', 'i32', 'count'),
    aligned(16, input('parts', 'i32', 'part_count', String(SUMMED_PART_WORDS))),
    input('row_words', 'i32', 'part_count', '2'),
    output('y', 'i32', 'count', 'part_count', String(PART_SUM_WORDS)),
    i32('part_count'),
  ],
  grid: [{ of: 'part_count' }, { of: 'count' }],
  tolerance: exact('whole numbers'),
});

export const blockSumsContracts: readonly KernelContract[] = [blockSums];
