/** y / (1 + e^-gate), element by element. */
export const sigmoidGate = (y: Float32Array, gate: Float32Array): Float64Array =>
  Float64Array.from(y, (value, i) => value / (1 + Math.exp(-gate[i]!)));
