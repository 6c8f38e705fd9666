/** Each weight times the scale of its expert, rounded once to f32. */
export const scaleExperts = (weights: Float32Array, ids: Int32Array, scale: Float32Array): Float64Array =>
  Float64Array.from(weights, (weight, i) => Math.fround(weight * scale[ids[i]!]!));
