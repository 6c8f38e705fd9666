import { defineKernel, i32, inout, input, type KernelContract } from '../device/contract.js';
import { exact } from '../device/tolerance.js';

export const scaleQueries = defineKernel({
  name: 'scale_queries',
  source: 'scale_queries.hip',
  summary: 'q *= the factor of its row’s position, in place',
  arguments: [
    inout('qkv', 'f32', 'tokens', 'heads + 2 * kv_heads', 'head_dim'),
    input('factors', 'f32', 'max_position'),
    input('row_position', 'i32', 'tokens'),
    i32('heads'),
    i32('kv_heads'),
    i32('head_dim'),
  ],
  grid: [{ of: 'heads' }, { of: 'tokens' }],
  tolerance: exact('one rounding, as in the reference'),
});

export const scaleQueriesContracts: readonly KernelContract[] = [scaleQueries];
