/** silu(v) = v / (1 + e^-v). */
export const silu = (v: number): number => v / (1 + Math.exp(-v));

/** y = silu(gate) * up; gate_up [rows, 2, ffn]: gate, then up. */
export function swiglu(gateUp: ArrayLike<number>, ffn: number): Float64Array {
  const rows = gateUp.length / (2 * ffn);
  const y = new Float64Array(rows * ffn);
  for (let row = 0; row < rows; row++) {
    for (let i = 0; i < ffn; i++) {
      y[row * ffn + i] = silu(gateUp[row * 2 * ffn + i]!) * gateUp[(row * 2 + 1) * ffn + i]!;
    }
  }
  return y;
}
