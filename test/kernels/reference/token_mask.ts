/** @param mask of each token, whether it is allowed; absent: all are */
export function tokenMask(logits: Float32Array, mask: readonly boolean[] | undefined): Float64Array {
  return Float64Array.from(logits, (logit, i) => (mask === undefined || mask[i] ? logit : Number.NEGATIVE_INFINITY));
}
