import { ranking, type Sampling } from './sample.js';
import { binsOf } from './sample_bins.js';

/** The ids among which the k-th largest lies: all up to the last bin that holds one of the k largest. */
export function topKCandidates(logits: ArrayLike<number>, sampling: Sampling): number[] {
  const bins = binsOf(logits, sampling);
  const last = bins[ranking(logits)[sampling.topK - 1]!]!;
  return bins.flatMap((bin, id) => (bin <= last ? [id] : []));
}
