import { aligned, defineKernel, i32, input, type KernelContract, output } from '../device/contract.js';
import { moved } from '../device/tolerance.js';
import { SUMMED_PART_WORDS } from './block-sums.js';

const BLOCKS = [
  input('blocks', 'i32', 'count'),
  aligned(16, input('parts', 'i32', 'part_count', String(SUMMED_PART_WORDS))),
  input('offsets', 'i32', 'part_count'),
] as const;
const SIZES = [i32('block_words')] as const;
const GRID = [{ of: 'part_count' }, { of: 'count' }];

/** Copies KV blocks, or snapshots of recurrent states, from all the buffers that hold a part of each. */
export const gatherBlocks = defineKernel({
  name: 'gather_blocks',
  source: 'block_copy.hip',
  summary: 'y[b] = the parts of block blocks[b], one behind the other',
  arguments: [...BLOCKS, output('y', 'i32', 'count', 'block_words'), ...SIZES],
  grid: GRID,
  tolerance: moved,
});

/** Copies them back. */
export const scatterBlocks = defineKernel({
  name: 'scatter_blocks',
  source: 'block_copy.hip',
  summary: 'the parts of block blocks[b] = x[b]',
  arguments: [...BLOCKS, input('x', 'i32', 'count', 'block_words'), ...SIZES],
  grid: GRID,
  tolerance: moved,
});

export const blockCopyContracts: readonly KernelContract[] = [gatherBlocks, scatterBlocks];
