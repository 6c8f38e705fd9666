import type { Weights } from './blocks.js';
import { matmulNormed } from './matmul_normed.js';
import { silu } from './swiglu.js';

/** silu(gate · norm(x)) * (up · norm(x)) of one row, before it is quantized. */
export function gateUpNormed(
  gate: Weights,
  up: Weights,
  x: Float32Array,
  norm: Float32Array,
  ffn: number,
  eps: number,
): Float64Array {
  const [g, u] = [gate, up].map((weight) => matmulNormed(weight, x, norm, ffn, eps).values);
  return Float64Array.from(g!, (value, n) => silu(value) * u![n]!);
}
