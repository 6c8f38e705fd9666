import { rmsNorm } from './rms_norm.js';

/** RMS norm of each of the first `heads` vectors of every row by itself; rows are `x_stride` apart, and the rest stays. */
export function headsNorm(
  x: Float32Array,
  weight: ArrayLike<number>,
  sizes: Readonly<Record<'heads' | 'head_dim' | 'x_stride' | 'eps', number>>,
): Float64Array {
  const { heads, head_dim: headDim, x_stride: stride, eps } = sizes;
  const y = Float64Array.from(x);
  for (let row = 0; row < x.length / stride; row++) {
    for (let head = 0; head < heads; head++) {
      const first = row * stride + head * headDim;
      y.set(rmsNorm(x.subarray(first, first + headDim), weight, headDim, eps), first);
    }
  }
  return y;
}
