/** The k and v vectors of one row of qkv [heads + 2 * kv_heads, head_dim], a head each. */
export function kvAppend(
  row: Float32Array,
  heads: number,
  kvHeads: number,
  headDim: number,
): { k: Float32Array[]; v: Float32Array[] } {
  const head = (i: number) => row.slice(i * headDim, (i + 1) * headDim);
  return {
    k: Array.from({ length: kvHeads }, (_, i) => head(heads + i)),
    v: Array.from({ length: kvHeads }, (_, i) => head(heads + kvHeads + i)),
  };
}
