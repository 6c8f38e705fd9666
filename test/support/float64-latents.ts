type Row = Float64Array;

/** A block's latent attention, in double precision. */
export interface LatentWeights {
  readonly heads: number;
  readonly rank: number;
  readonly plain: number;
  readonly rotated: number;
  readonly valueDim: number;
  readonly scale: number;
  readonly product: (name: string, x: Row) => Row;
  /** One of several matrices behind each other. */
  readonly productOf: (name: string, which: number, count: number, x: Row) => Row;
  readonly norm: (name: string, x: Row) => Row;
  readonly tensor: (name: string) => Row;
  readonly has: (name: string) => boolean;
  /** Rotates a vector of `rotated` elements. */
  readonly turn: (vector: Row, position: number) => Row;
  readonly temperature: (position: number) => number;
}

/**
 * DeepSeek-V2 (2024), section 2.1, as it is defined: keys and values of every head are made of the latents, not the other way
 * round.
 */
export function float64Latents(of: LatentWeights, xs: readonly Row[]): Row[] {
  const { heads, rank, plain, rotated, valueDim, scale, product, productOf, norm, tensor, has, turn } = of;
  const keyMatrix = tensor('attn_k_b.weight');
  const rows = xs.map((x, position) => {
    const q = has('attn_q_a.weight')
      ? product('attn_q_b', norm('attn_q_a_norm', product('attn_q_a', x)))
      : product('attn_q', x);
    const compressed = product('attn_kv_a_mqa', x);
    const latent = norm('attn_kv_a_norm', compressed.slice(0, rank));
    const shared = turn(compressed.slice(rank), position);
    const each = Array.from({ length: heads }, (_, head) => {
      const own = q.slice(head * (plain + rotated), (head + 1) * (plain + rotated));
      // The file has each head's matrix the other way round, `[rank, plain]`.
      const key = Float64Array.from({ length: plain }, (_, i) =>
        latent.reduce((sum, value, j) => sum + value * keyMatrix[(head * rank + j) * plain + i]!, 0),
      );
      const query = [...own.slice(0, plain), ...turn(own.slice(plain), position)];
      return { query, key: [...key, ...shared], value: productOf('attn_v_b', head, heads, latent) };
    });
    return each;
  });
  return rows.map((own, position) => {
    const out = new Float64Array(heads * valueDim);
    for (const [head, { query }] of own.entries()) {
      const scores = rows
        .slice(0, position + 1)
        .map((other) => other[head]!.key.reduce((sum, value, i) => sum + value * query[i]!, 0));
      const scaled = scores.map((score) => score * scale * of.temperature(position));
      const largest = Math.max(...scaled);
      const weights = scaled.map((score) => Math.exp(score - largest));
      const total = weights.reduce((sum, value) => sum + value, 0);
      for (const [i, weight] of weights.entries())
        for (let e = 0; e < valueDim; e++) out[head * valueDim + e]! += (weight / total) * rows[i]![head]!.value[e]!;
    }
    return product('attn_output', out);
  });
}
