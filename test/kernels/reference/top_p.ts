import { filtered, type Kept, ranking } from './sample.js';

/** True if each id is among the fewest that hold a share p of the mass; `undefined` within rounding of the edge. */
export function topP(logits: ArrayLike<number>, p: number): Kept {
  const sampling = { temperature: 1, topK: 0, typicalP: 1, topP: p, minP: 0, seed: [0, 0], sampleIndex: 0 } as const;
  return filtered(logits, ranking(logits), sampling);
}
