import { FILTER_BINS } from '../../../src/executor/kernels/index.js';
import type { Sampling } from './sample.js';

/** Which bin each logit is in, by its distance from the largest: each step rounded to f32, as on a device. */
export function binsOf(logits: ArrayLike<number>, { topK, temperature }: Sampling): number[] {
  const f32 = Math.fround;
  const largest = Math.max(...Array.from(logits));
  const isCounted = topK > 0 && topK < logits.length;
  const scale = isCounted ? 16 : f32(16 * Math.max(f32(1 / temperature), 1));
  return Array.from(logits, (logit) => Math.trunc(Math.min(f32(f32(largest - logit) * scale), FILTER_BINS - 1)));
}
