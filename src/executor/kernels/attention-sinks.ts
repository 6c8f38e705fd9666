import { defineKernel, f32, i32, input, type KernelContract, output } from '../device/contract.js';
import { attentionPaged } from './attention.js';
import { type KvCacheType, qkvOf, readCache, rowArguments } from './paged-cache.js';

/** Head sizes that attention with sinks is built for: gpt-oss's. */
export const SINK_HEAD_DIMS: readonly number[] = [64];

/** {@link attentionPaged}, the softmax with a score more for each head, whose value is zero; Xiao et al. (2024). */
export const attentionSinks = (type: KvCacheType, headDim: number) => {
  const { multiples, order, tolerance } = attentionPaged(type, headDim);
  return defineKernel({
    name: `attention_sinks_${type}_d${headDim}`,
    source: 'attention_paged.hip',
    // GPUs attend to other caches in tiles.
    ...(type === 'f32' ? {} : { on: 'host' as const }),
    summary: 'attention_paged, sinks[head] one of the scores, of a value of zeros',
    arguments: [
      qkvOf(`${headDim}`),
      readCache('k_cache', type, `${headDim}`),
      readCache('v_cache', type, `${headDim}`),
      output('out', 'f32', 'tokens', 'heads', `${headDim}`),
      ...rowArguments,
      input('sinks', 'f32', 'heads'),
      i32('heads'),
      i32('kv_heads'),
      i32('window'),
      f32('scale'),
    ],
    grid: [{ of: 'heads' }, { of: 'tokens' }],
    multiples: multiples!,
    order: order!,
    tolerance,
  });
};

export const attentionSinksContracts: readonly KernelContract[] = SINK_HEAD_DIMS.flatMap((headDim) =>
  (['f32', 'f16', 'q8_0'] as const).map((type) => attentionSinks(type, headDim)),
);
