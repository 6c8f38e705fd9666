import { rmsNorm } from './rms_norm.js';

/** RMS norm of each head of q and k by itself; qkv is `[tokens, heads + 2 * kv_heads, head_dim]`, and v stays as it is. */
export function headNorm(
  qkv: Float32Array,
  query: ArrayLike<number>,
  key: ArrayLike<number>,
  { heads, kvHeads, headDim, eps }: Readonly<Record<'heads' | 'kvHeads' | 'headDim' | 'eps', number>>,
): Float64Array {
  const y = Float64Array.from(qkv);
  const width = heads + 2 * kvHeads;
  for (let head = 0; head < qkv.length / headDim; head++) {
    const place = head % width;
    if (place >= heads + kvHeads) continue;
    const x = qkv.subarray(head * headDim, (head + 1) * headDim);
    y.set(rmsNorm(x, place < heads ? query : key, headDim, eps), head * headDim);
  }
  return y;
}
