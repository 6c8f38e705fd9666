/** gate · sigmoid(alpha · gate) · (up + 1), the gate at most limit, up from -limit to limit; rows of gate, then up. */
export function swigluClamped(gateUp: Float32Array, ffn: number, alpha: number, limit: number): Float64Array {
  return Float64Array.from({ length: gateUp.length / 2 }, (_, i) => {
    const at = Math.floor(i / ffn) * 2 * ffn + (i % ffn);
    const gate = Math.min(gateUp[at]!, limit);
    const up = Math.max(-limit, Math.min(limit, gateUp[at + ffn]!));
    return (gate / (1 + Math.exp(-alpha * gate))) * (up + 1);
  });
}
