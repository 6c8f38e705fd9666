import type { Weights } from './blocks.js';
import { matmulPacked } from './matmul_packed.js';
import { quantizeQ8 } from './quantize_q8.js';
import { rmsNorm } from './rms_norm.js';

/** weight · norm(x) of one row, its norm quantized from double precision: a quant may be the next one to that of f32. */
export function matmulNormed(
  weight: Weights,
  x: Float32Array,
  norm: Float32Array,
  out: number,
  eps: number,
): ReturnType<typeof matmulPacked> {
  const { quants, scales } = quantizeQ8(Float32Array.from(rmsNorm(x, norm, x.length, eps)));
  const meaning = Float64Array.from(x, (_, i) => quants[i]! * scales[Math.floor(i / 32)]!);
  return matmulPacked(weight, meaning, out, x.length);
}
