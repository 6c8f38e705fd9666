import type { Reference } from '../support/compare.js';
import type { PagedCache } from '../support/paged.js';
import { attend } from './attention.js';

/**
 * Causal attention of each row of qkv [rows, heads + 2 * kv_heads, head_dim] over the cache of its slot, over the latest
 * `window` positions where that is not 0.
 */
export function attentionPaged(
  qkv: Float32Array,
  cache: Pick<PagedCache, 'headDim' | 'kvHeads' | 'context'>,
  rows: readonly { readonly slot: number; readonly position: number }[],
  heads: number,
  scale: number,
  { window = 0, softcap = 0, sinks }: { window?: number; softcap?: number; sinks?: Float32Array } = {},
): Required<Reference> {
  const { headDim, kvHeads } = cache;
  const values = new Float64Array(rows.length * heads * headDim);
  const magnitudes = new Float64Array(values.length);
  rows.forEach(({ slot, position }, row) => {
    const first = window === 0 ? 0 : Math.max(0, position + 1 - window);
    for (let head = 0; head < heads; head++) {
      const kvHead = Math.floor(head / (heads / kvHeads));
      const start = (row * (heads + 2 * kvHeads) + head) * headDim;
      const result = attend(
        qkv.subarray(start, start + headDim),
        cache.context('k', slot, kvHead).slice(first, position + 1),
        cache.context('v', slot, kvHead).slice(first, position + 1),
        scale,
        softcap,
        sinks?.[head],
      );
      values.set(result.values, (row * heads + head) * headDim);
      magnitudes.set(result.magnitudes, (row * heads + head) * headDim);
    }
  });
  return { values, magnitudes };
}
