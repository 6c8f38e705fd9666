import type { Reference } from '../support/compare.js';
import { attend } from './attention.js';

/** The shape of attention over keys and values that are not paged. */
export interface AttentionShape {
  readonly batch: number;
  readonly rows: number;
  readonly columns: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
}

/** Head `head` of entry `index` of x [entries, heads, head_dim]. */
export const headOf = (x: Float32Array, index: number, heads: number, head: number, headDim: number): Float32Array =>
  x.subarray((index * heads + head) * headDim, (index * heads + head + 1) * headDim);

/** softmax(scale · q kᵀ) v, every query over every key of its batch entry: [batch, rows, heads, head_dim]. */
export function flashAttentionNocausal(
  q: Float32Array,
  k: Float32Array,
  v: Float32Array,
  { batch, rows, columns, heads, kvHeads, headDim }: AttentionShape,
  scale: number,
): Required<Reference> {
  const result = { values: new Float64Array(q.length), magnitudes: new Float64Array(q.length) };
  for (let entry = 0; entry < batch; entry++) {
    for (let head = 0; head < heads; head++) {
      const kvHead = Math.floor(head / (heads / kvHeads));
      const tokens = Array.from({ length: columns }, (_, c) => entry * columns + c);
      const keys = tokens.map((token) => headOf(k, token, kvHeads, kvHead, headDim));
      const values = tokens.map((token) => headOf(v, token, kvHeads, kvHead, headDim));
      for (let r = entry * rows; r < (entry + 1) * rows; r++) {
        const one = attend(headOf(q, r, heads, head, headDim), keys, values, scale);
        result.values.set(one.values, (r * heads + head) * headDim);
        result.magnitudes.set(one.magnitudes, (r * heads + head) * headDim);
      }
    }
  }
  return result;
}
