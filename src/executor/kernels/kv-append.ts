import { aligned, defineKernel, i32, type KernelContract } from '../device/contract.js';
import { exact } from '../device/tolerance.js';
import { FLOAT_TYPES, type FloatType } from './formats.js';
import { pagedCache, q8Cache, qkvOf, rowArguments } from './paged-cache.js';
import { QUANTIZED } from './rope-kv-append.js';

export const kvAppend = (type: FloatType) =>
  defineKernel({
    name: `kv_append_${type}`,
    source: 'kv_append.hip',
    summary: 'stores k and v of each row in the cache at the row’s position',
    arguments: [
      qkvOf('head_dim'),
      pagedCache('k_cache', type, 'head_dim'),
      pagedCache('v_cache', type, 'head_dim'),
      ...rowArguments,
      i32('heads'),
      i32('kv_heads'),
      i32('head_dim'),
    ],
    grid: [{ of: '2 * kv_heads' }, { of: 'tokens' }],
    tolerance: exact('values are moved, and in f16 rounded once, as in the reference'),
  });

export const kvAppendQ8 = defineKernel({
  name: 'kv_append_q8_0',
  source: 'twins/kv_append_q8_0.hip',
  summary: 'quantizes k and v of each row into the cache at the row’s position',
  arguments: [
    aligned(16, qkvOf('head_dim')),
    q8Cache('k_cache', 'head_dim'),
    q8Cache('v_cache', 'head_dim'),
    ...rowArguments,
    i32('heads'),
    i32('kv_heads'),
    i32('head_dim'),
  ],
  grid: [{ of: '2 * kv_heads' }, { of: 'tokens' }],
  multiples: [['head_dim', '32']],
  tolerance: QUANTIZED,
});

export const kvAppendContracts: readonly KernelContract[] = [...FLOAT_TYPES.map(kvAppend), kvAppendQ8];
