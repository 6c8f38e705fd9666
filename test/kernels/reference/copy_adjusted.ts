/** A row's logits where they are adjusted, else what was there before. */
export function copyAdjusted(logits: Float32Array, before: Float32Array, adjusts: boolean): Float32Array {
  return adjusts ? logits : before;
}
