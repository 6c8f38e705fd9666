import type { Reference } from '../support/compare.js';
import type { PagedCache } from '../support/paged.js';
import { attend } from './attention.js';

/** Attention of one query over positions first .. end - 1 of its slot. */
export function attentionTile(
  q: Float32Array,
  cache: Pick<PagedCache, 'context'>,
  slot: number,
  kvHead: number,
  [first, end]: readonly [number, number],
  { scale, softcap = 0 }: { readonly scale: number; readonly softcap?: number },
  sink?: number,
): Required<Reference> {
  const keys = cache.context('k', slot, kvHead).slice(first, end);
  return attend(q, keys, cache.context('v', slot, kvHead).slice(first, end), scale, softcap, sink);
}
