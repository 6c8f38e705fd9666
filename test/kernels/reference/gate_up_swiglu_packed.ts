import { F32_ROUNDING } from '../../../src/executor/device/tolerance.js';
import type { Reference } from '../support/compare.js';
import type { Weights } from './blocks.js';
import { matmulPacked } from './matmul_packed.js';
import { silu } from './swiglu.js';

/**
 * silu(gate[n] · x[t]) * (up[n] · x[t]), before it is quantized. Magnitudes: how far f32 may stray from it when each dot
 * product takes `roundings`; silu changes by at most 1.1 times its argument's change.
 */
export function gateUpSwigluPacked(
  gate: Weights,
  up: Weights,
  x: ArrayLike<number>,
  ffn: number,
  inner: number,
  roundings: number,
): Required<Reference> {
  const [g, u] = [matmulPacked(gate, x, ffn, inner), matmulPacked(up, x, ffn, inner)];
  const off = (size: number) => roundings * F32_ROUNDING * size;
  return {
    values: g.values.map((value, i) => silu(value) * u.values[i]!),
    magnitudes: g.magnitudes.map((size, i) => {
      const [gateOff, upOff] = [1.1 * off(size), off(u.magnitudes[i]!)];
      const product = Math.abs(silu(g.values[i]!)) * upOff + gateOff * (Math.abs(u.values[i]!) + upOff);
      return product + 1e-5 * Math.abs(silu(g.values[i]!) * u.values[i]!);
    }),
  };
}
