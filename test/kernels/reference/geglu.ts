/** gelu(v) = v / 2 · (1 + tanh(√(2/π) (v + 0.044715 v³))). */
export const gelu = (v: number): number => (v / 2) * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (v + 0.044715 * v ** 3)));

/** y = gelu(gate) * up; gate_up [rows, 2, ffn]: gate, then up. */
export function geglu(gateUp: ArrayLike<number>, ffn: number): Float64Array {
  const rows = gateUp.length / (2 * ffn);
  const y = new Float64Array(rows * ffn);
  for (let row = 0; row < rows; row++) {
    for (let i = 0; i < ffn; i++) {
      y[row * ffn + i] = gelu(gateUp[row * 2 * ffn + i]!) * gateUp[(row * 2 + 1) * ffn + i]!;
    }
  }
  return y;
}
