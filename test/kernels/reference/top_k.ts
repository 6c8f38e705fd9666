import { type Kept, ranking } from './sample.js';

/** True if each id is among the k largest, ties to the lower id; k = 0: all. */
export function topK(logits: ArrayLike<number>, k: number): Kept {
  const kept: Kept = new Array(logits.length).fill(k === 0);
  if (k > 0) for (const id of ranking(logits).slice(0, k)) kept[id] = true;
  return kept;
}
