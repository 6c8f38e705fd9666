/** Heads of q, k and v, and the gates that lie behind each head of q. */
export function splitQueryGates(
  gated: Float32Array,
  { heads, kvHeads, headDim }: Readonly<Record<'heads' | 'kvHeads' | 'headDim', number>>,
): { readonly qkv: Float64Array; readonly gate: Float64Array } {
  const isGate = (i: number): boolean => {
    const head = Math.floor(i / headDim) % (2 * heads + 2 * kvHeads);
    return head < 2 * heads && head % 2 === 1;
  };
  const pick = (wanted: boolean) => Float64Array.from([...gated].filter((_, i) => isGate(i) === wanted));
  return { qkv: pick(false), gate: pick(true) };
}
