/** y with bias[ids[pair]] added to each place that a pair of row and expert has. */
export function biasAddExperts(
  y: Float32Array,
  bias: Float32Array,
  { ids, places, out, stride }: { ids: Int32Array; places: Int32Array; out: number; stride: number },
): Float64Array {
  const values = Float64Array.from(y);
  for (const [pair, expert] of ids.entries()) {
    for (let n = 0; n < out; n++) values[places[pair]! * stride + n]! += bias[expert * out + n]!;
  }
  return values;
}
