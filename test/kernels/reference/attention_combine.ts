import type { Reference } from '../support/compare.js';

/**
 * The whole of the parts [splits, 2 + head_dim] of one row and head: largest score, sum of weights, weighted values.
 * Magnitudes: the largest |values / sum| of a part.
 */
export function attentionCombine(parts: readonly ArrayLike<number>[], headDim: number): Required<Reference> {
  const largest = Math.max(...parts.map((part) => part[0]!));
  const values = new Float64Array(headDim);
  const magnitudes = new Float64Array(headDim);
  let sum = 0;
  for (const part of parts) {
    const factor = Math.exp(part[0]! - largest);
    sum += part[1]! * factor;
    for (let i = 0; i < headDim; i++) {
      values[i]! += part[2 + i]! * factor;
      magnitudes[i] = Math.max(magnitudes[i]!, Math.abs(part[2 + i]! / part[1]!));
    }
  }
  return { values: values.map((value) => value / sum), magnitudes };
}
