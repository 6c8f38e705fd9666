import type { Reference } from '../support/compare.js';
import { matmul } from './matmul.js';
import { silu } from './swiglu.js';

/** silu(gate[n] · x[t]) * (up[n] · x[t]); weight [2, ffn, hidden]. Magnitudes: 1.1 · |gate| · |up| + |silu| · |up|. */
export function gateUpSwiglu(
  weight: Float32Array,
  x: ArrayLike<number>,
  ffn: number,
  hidden: number,
): Required<Reference> {
  const gate = matmul(weight.subarray(0, ffn * hidden), x, ffn, hidden);
  const up = matmul(weight.subarray(ffn * hidden), x, ffn, hidden);
  return {
    values: gate.values.map((value, i) => silu(value) * up.values[i]!),
    magnitudes: gate.magnitudes.map(
      (size, i) => 1.1 * size * Math.abs(up.values[i]!) + Math.abs(silu(gate.values[i]!)) * up.magnitudes[i]!,
    ),
  };
}
