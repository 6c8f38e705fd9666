import type { PagedCache } from '../support/paged.js';
import { attend } from './attention.js';

/** Attention of one query over the tokens first .. end - 1 of its slot, normalized. */
export function attentionSplit(
  q: Float32Array,
  cache: PagedCache,
  slot: number,
  kvHead: number,
  [first, end]: readonly [number, number],
  scale: number,
): ReturnType<typeof attend> {
  const keys = cache.context('k', slot, kvHead).slice(first, end);
  return attend(q, keys, cache.context('v', slot, kvHead).slice(first, end), scale);
}
