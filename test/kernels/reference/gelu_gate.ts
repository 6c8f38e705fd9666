import { gelu } from './geglu.js';

/** gelu(y) · x; rows of x are `stride` apart. */
export const geluGate = (y: Float32Array, x: Float32Array, columns: number, stride: number): Float64Array =>
  Float64Array.from(y, (gate, i) => gelu(gate) * x[Math.floor(i / columns) * stride + (i % columns)]!);
