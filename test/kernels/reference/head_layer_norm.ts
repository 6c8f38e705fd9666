import type { Reference } from '../support/compare.js';
import { layerNorm } from './layer_norm.js';

/**
 * LayerNorm of each head of q and k by itself, with weights of its own; qkv is `[tokens, heads + 2 * kv_heads, head_dim]`, and v
 * stays as it is.
 */
export function headLayerNorm(
  qkv: Float32Array,
  query: Float32Array,
  key: Float32Array,
  { heads, kvHeads, headDim, eps }: Readonly<Record<'heads' | 'kvHeads' | 'headDim' | 'eps', number>>,
): Required<Reference> {
  const values = Float64Array.from(qkv);
  const magnitudes = new Float64Array(qkv.length);
  const weights = Float32Array.of(...query, ...key);
  const none = new Float32Array(headDim);
  const width = heads + 2 * kvHeads;
  for (let head = 0; head < qkv.length / headDim; head++) {
    const place = head % width;
    if (place >= heads + kvHeads) continue;
    const weight = weights.subarray(place * headDim, (place + 1) * headDim);
    const of = layerNorm(qkv.subarray(head * headDim, (head + 1) * headDim), weight, none, headDim, eps);
    values.set(of.values, head * headDim);
    magnitudes.set(of.magnitudes, head * headDim);
  }
  return { values, magnitudes };
}
