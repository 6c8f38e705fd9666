import { residualAdd } from './residual_add.js';
import { rmsNorm } from './rms_norm.js';

/** x + y / sqrt(mean(y²) + eps) * weight, for each row of both, [rows, hidden]. */
export const normAdd = (
  x: ArrayLike<number>,
  y: ArrayLike<number>,
  weight: ArrayLike<number>,
  hidden: number,
  eps: number,
): Float64Array => residualAdd(x, rmsNorm(y, weight, hidden, eps));
