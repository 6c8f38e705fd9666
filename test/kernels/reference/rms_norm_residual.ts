import { residualAdd } from './residual_add.js';
import { rmsNorm } from './rms_norm.js';

/** x + delta, rounded to f32 as the residual stream is, and its norm. */
export function rmsNormResidual(
  x: ArrayLike<number>,
  delta: ArrayLike<number>,
  weight: ArrayLike<number>,
  hidden: number,
  eps: number,
): { x: Float64Array; y: Float64Array } {
  const sum = residualAdd(x, delta);
  return { x: sum, y: rmsNorm(Float32Array.from(sum), weight, hidden, eps) };
}
