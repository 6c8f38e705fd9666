/** y[t] / (1 + e^-gate[t]) */
export const gateRows = (y: Float32Array, gate: Float32Array, columns: number): Float64Array =>
  Float64Array.from(y, (value, i) => value / (1 + Math.exp(-gate[Math.floor(i / columns)]!)));
