import { aligned, defineKernel, i32, type KernelContract, variants } from '../device/contract.js';
import { exact } from '../device/tolerance.js';
import { KV_CACHE_TYPES, type KvCacheType, pagedCache, qkvOf, rowArguments } from './paged-cache.js';
import { QUANTIZED } from './rope-kv-append.js';

export const kvAppend = variants((type: KvCacheType) =>
  defineKernel({
    name: `kv_append_${type}`,
    source: type === 'q8_0' ? 'twins/kv_append_q8_0.hip' : 'kv_append.hip',
    summary: 'stores k and v of each row in the cache at the row’s position',
    arguments: [
      type === 'q8_0' ? aligned(16, qkvOf('head_dim')) : qkvOf('head_dim'),
      pagedCache('k_cache', type, 'head_dim'),
      pagedCache('v_cache', type, 'head_dim'),
      ...rowArguments,
      i32('heads'),
      i32('kv_heads'),
      i32('head_dim'),
    ],
    grid: [{ of: '2 * kv_heads' }, { of: 'tokens' }],
    ...(type === 'q8_0' && { multiples: [['head_dim', '32']] as const }),
    tolerance: type === 'q8_0' ? QUANTIZED : exact('values are moved, and in f16 rounded once, as in the reference'),
  }),
);

export const kvAppendContracts: readonly KernelContract[] = KV_CACHE_TYPES.map(kvAppend);
