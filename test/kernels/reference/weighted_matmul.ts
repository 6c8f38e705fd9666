import type { Reference } from '../support/compare.js';

/** sum_c weights[c] * values[c] of one row and head. Magnitudes: sums of absolute products. */
export function weightedSum(
  weights: ArrayLike<number>,
  values: readonly ArrayLike<number>[],
  headDim: number,
): Required<Reference> {
  const result = { values: new Float64Array(headDim), magnitudes: new Float64Array(headDim) };
  values.forEach((value, c) => {
    for (let i = 0; i < headDim; i++) {
      const product = weights[c]! * value[i]!;
      result.values[i]! += product;
      result.magnitudes[i]! += Math.abs(product);
    }
  });
  return result;
}
