import { filtered, type Kept, ranking } from './sample.js';

/** True if each id is at least p times as probable as the best; `undefined` within rounding of the edge. */
export function minP(logits: ArrayLike<number>, p: number): Kept {
  const sampling = { temperature: 1, topK: 0, typicalP: 1, topP: 1, minP: p, seed: [0, 0], sampleIndex: 0 } as const;
  return filtered(logits, ranking(logits), sampling);
}
