import { ranking } from './sample.js';

/** The `wanted` likeliest ids of each of `parts` parts of a row, likeliest first. */
export function likeliestOfParts(logits: ArrayLike<number>, parts: number, wanted: number): number[][] {
  const size = Math.ceil(logits.length / parts);
  const order = ranking(logits);
  return Array.from({ length: parts }, (_, part) =>
    order.filter((id) => Math.floor(id / size) === part).slice(0, wanted),
  );
}
