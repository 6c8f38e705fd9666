import type { Reference } from '../support/compare.js';
import { matmul } from './matmul.js';

/** a b, row-major: a [m, k], b [k, n]. */
export function smallGemm(a: ArrayLike<number>, b: ArrayLike<number>, n: number, k: number): Required<Reference> {
  const transposed = Float64Array.from({ length: n * k }, (_, i) => b[(i % k) * n + Math.floor(i / k)]!);
  return matmul(transposed, a, n, k);
}
