import { rmsNorm } from './rms_norm.js';
import { silu } from './swiglu.js';

/** RMS norm of each head of x by itself, times silu of its gates, whose rows are `stride` apart. */
export function gatedNorm(
  x: Float32Array,
  gate: Float32Array,
  weight: Float32Array,
  { heads, dim, stride, eps }: Readonly<Record<'heads' | 'dim' | 'stride' | 'eps', number>>,
): Float64Array {
  const y = new Float64Array(x.length);
  for (let head = 0; head < x.length / dim; head++) {
    y.set(rmsNorm(x.subarray(head * dim, (head + 1) * dim), weight, dim, eps), head * dim);
  }
  const width = heads * dim;
  return y.map((value, i) => value * silu(gate[Math.floor(i / width) * stride + (i % width)]!));
}
