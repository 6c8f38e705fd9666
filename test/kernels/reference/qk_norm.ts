import { rmsNorm } from './rms_norm.js';

/** RMS norms of all heads of q together and of all of k; qkv is `[tokens, heads + 2 * kv_heads, head_dim]`, v stays. */
export function qkNorm(
  qkv: Float32Array,
  query: ArrayLike<number>,
  key: ArrayLike<number>,
  { heads, kvHeads, headDim, eps }: Readonly<Record<'heads' | 'kvHeads' | 'headDim' | 'eps', number>>,
): Float64Array {
  const y = Float64Array.from(qkv);
  const [width, queries, keys] = [(heads + 2 * kvHeads) * headDim, heads * headDim, kvHeads * headDim];
  for (let row = 0; row < qkv.length; row += width) {
    y.set(rmsNorm(qkv.subarray(row, row + queries), query, queries, eps), row);
    y.set(rmsNorm(qkv.subarray(row + queries, row + queries + keys), key, keys, eps), row + queries);
  }
  return y;
}
