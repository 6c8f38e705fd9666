import { rmsNorm } from './rms_norm.js';

/** RMS norm of each group of every row by itself; `weight` is `[groups, width]`. */
export function groupsNorm(
  x: Float32Array,
  weight: Float32Array,
  { groups, width, eps }: Readonly<Record<'groups' | 'width' | 'eps', number>>,
): Float64Array {
  const y = new Float64Array(x.length);
  for (let first = 0; first < x.length; first += width) {
    const group = (first / width) % groups;
    const own = weight.subarray(group * width, (group + 1) * width);
    y.set(rmsNorm(x.subarray(first, first + width), own, width, eps), first);
  }
  return y;
}
