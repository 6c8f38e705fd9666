import type { Reference } from '../support/compare.js';

/**
 * softmax(scale · q kᵀ) v of one query, with `sink` a score more whose value is zero, over `keys` and `values`, of which each entry is one token's head vector.
 * Scores become softcap · tanh(score / softcap) where softcap is not 0; `biases` are added to them. Nothing to attend to gives 0.
 * Magnitude: max |v| · (1 + max scale · √(sum (q k)²) + max |bias| + softcap).
 */
export function attend(
  q: ArrayLike<number>,
  keys: readonly ArrayLike<number>[],
  values: readonly ArrayLike<number>[],
  scale: number,
  softcap = 0,
  sink = Number.NEGATIVE_INFINITY,
  biases: readonly number[] = [],
): Required<Reference> {
  const dim = q.length;
  let spread = 0;
  const scores = keys.map((k, key) => {
    const bias = biases[key] ?? 0;
    let sum = 0;
    let squares = 0;
    for (let i = 0; i < dim; i++) {
      sum += q[i]! * k[i]!;
      squares += (q[i]! * k[i]!) ** 2;
    }
    spread = Math.max(spread, Math.abs(scale) * Math.sqrt(squares) + Math.abs(bias));
    return bias + (softcap === 0 ? sum * scale : softcap * Math.tanh((sum * scale) / softcap));
  });
  const largest = Math.max(...scores, sink);
  const weights = scores.map((score) => Math.exp(score - largest));
  const total = weights.reduce((sum, weight) => sum + weight, Math.exp(sink - largest));
  const result = new Float64Array(dim);
  let largestValue = 0;
  values.forEach((v, j) => {
    for (let i = 0; i < dim; i++) {
      result[i]! += (weights[j]! / total) * v[i]!;
      largestValue = Math.max(largestValue, Math.abs(v[i]!));
    }
  });
  return { values: result, magnitudes: new Float64Array(dim).fill(largestValue * (1 + spread + softcap)) };
}
