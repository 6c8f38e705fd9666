import type { Reference } from '../support/compare.js';

/** x[t] = sum_i weights[t][i] * y[placeOf[t][i]] */
export function combineExperts(
  y: Float32Array,
  placeOf: Int32Array,
  weights: Float32Array,
  hidden: number,
  used: number,
): Required<Reference> {
  const rows = placeOf.length / used;
  const [values, magnitudes] = [new Float64Array(rows * hidden), new Float64Array(rows * hidden)];
  for (let pair = 0; pair < placeOf.length; pair++) {
    for (let n = 0; n < hidden; n++) {
      const term = weights[pair]! * y[placeOf[pair]! * hidden + n]!;
      const at = Math.floor(pair / used) * hidden + n;
      values[at]! += term;
      magnitudes[at]! += Math.abs(term);
    }
  }
  return { values, magnitudes };
}
