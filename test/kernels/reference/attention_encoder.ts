import type { Reference } from '../support/compare.js';
import { attend } from './attention.js';
import { headOf } from './flash_attention_nocausal.js';

/** Heads of an encoder's attention. */
export interface EncoderShape {
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
}

/**
 * Attention of sequences of `lengths` rows behind each other in qkv [rows, heads + 2 * kv_heads, head_dim]: of each row over its
 * sequence, or `reach` positions on each side of its own if that is not 0. Scores are lowered by slope · distance.
 */
export function attentionEncoder(
  qkv: Float32Array,
  lengths: readonly number[],
  { heads, kvHeads, headDim }: EncoderShape,
  scale: number,
  { reach = 0, slopes }: { readonly reach?: number; readonly slopes?: Float32Array } = {},
): Required<Reference> {
  const rows = lengths.reduce((sum, length) => sum + length, 0);
  const values = new Float64Array(rows * heads * headDim);
  const magnitudes = new Float64Array(values.length);
  const wide = heads + 2 * kvHeads;
  let start = 0;
  for (const length of lengths) {
    for (let position = 0; position < length; position++) {
      const first = reach === 0 ? 0 : Math.max(0, position - reach);
      const end = reach === 0 ? length : Math.min(length, position + reach + 1);
      const seen = Array.from({ length: end - first }, (_, i) => first + i);
      for (let head = 0; head < heads; head++) {
        const kvHead = Math.floor(head / (heads / kvHeads));
        const result = attend(
          headOf(qkv, start + position, wide, head, headDim),
          seen.map((at) => headOf(qkv, start + at, wide, heads + kvHead, headDim)),
          seen.map((at) => headOf(qkv, start + at, wide, heads + kvHeads + kvHead, headDim)),
          scale,
          0,
          Number.NEGATIVE_INFINITY,
          seen.map((at) => -(slopes?.[head] ?? 0) * Math.abs(at - position)),
        );
        values.set(result.values, ((start + position) * heads + head) * headDim);
        magnitudes.set(result.magnitudes, ((start + position) * heads + head) * headDim);
      }
    }
    start += length;
  }
  return { values, magnitudes };
}
