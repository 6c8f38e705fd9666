import type { Reference } from '../support/compare.js';
import { gateUpSwiglu } from './gate_up_swiglu.js';

/** silu(gate[n] · x[t]) * (up[n] · x[t]) before it is stored; weight [2, ffn, hidden]. Magnitudes as gate_up_swiglu's. */
export function gateUpSwigluTile(
  weight: Float32Array,
  x: ArrayLike<number>,
  ffn: number,
  hidden: number,
): Required<Reference> {
  return gateUpSwiglu(weight, x, ffn, hidden);
}
