import type { Reference } from '../support/compare.js';
import { gelu } from './geglu.js';

/** y = gelu(max(gate - cutoff, 0)) · up with cutoff = mean + deviations · deviation; gate_up [rows, 2, ffn]: gate, then up. */
export function sparseGeglu(gateUp: Float32Array, ffn: number, deviations: number): Reference {
  const rows = gateUp.length / (2 * ffn);
  const [values, magnitudes] = [new Float64Array(rows * ffn), new Float64Array(rows * ffn)];
  for (let row = 0; row < rows; row++) {
    const gates = Float64Array.from(gateUp.subarray(2 * row * ffn, (2 * row + 1) * ffn));
    const mean = gates.reduce((sum, gate) => sum + gate, 0) / ffn;
    const variance = gates.reduce((sum, gate) => sum + (gate - mean) ** 2, 0) / (ffn - 1);
    const rootMean = Math.sqrt(gates.reduce((sum, gate) => sum + gate ** 2, 0) / ffn);
    const cutoff = mean + deviations * Math.sqrt(variance);
    for (const [i, gate] of gates.entries()) {
      const up = gateUp[(2 * row + 1) * ffn + i]!;
      values[row * ffn + i] = gelu(Math.max(gate - cutoff, 0)) * up;
      magnitudes[row * ffn + i] = Math.abs(up) * (Math.abs(gate) + (1 + Math.abs(deviations)) * rootMean);
    }
  }
  return { values, magnitudes };
}
