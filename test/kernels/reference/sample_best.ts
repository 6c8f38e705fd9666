/** The largest of a row and its first column; -inf at 0 when there is nothing above -inf. NaN is +inf before all columns. */
export function sampleBest(logits: ArrayLike<number>): { readonly value: number; readonly index: number } {
  let best = { value: Number.NEGATIVE_INFINITY, index: 0 };
  for (let i = 0; i < logits.length; i++) {
    if (Number.isNaN(logits[i])) return { value: Number.POSITIVE_INFINITY, index: -1 };
    if (logits[i]! > best.value) best = { value: logits[i]!, index: i };
  }
  return best;
}
