type Row = Float64Array;

/** Weights of a block's gated delta net, in double precision. */
export interface NetWeights {
  readonly keyHeads: number;
  readonly valueHeads: number;
  readonly dim: number;
  readonly epsilon: number;
  /** Value heads of a key head follow each other, and their gates are products of `ssm_ba`. */
  readonly isGrouped: boolean;
  /** The product of a row with the block's matrix of that name. */
  readonly product: (name: string, x: Row) => Row;
  /** The block's tensor of that name. */
  readonly tensor: (name: string) => Row;
}

const sigmoid = (value: number): number => 1 / (1 + Math.exp(-value));
const silu = (value: number): number => value * sigmoid(value);

/** Betas and alphas of which those of each group follow each other. */
function apart(both: Row, group: number): readonly [beta: Row, alpha: Row] {
  const parts = [0, 1].map((which) => both.filter((_, i) => Math.floor(i / group) % 2 === which));
  return parts as unknown as readonly [Row, Row];
}

/**
 * Yang, Kautz & Hatamizadeh (2025), one position after the other, with a state of key rows and value columns: S = a S (I - b k
 * kᵀ) + b v kᵀ, and S q.
 */
export function float64DeltaNet(net: NetWeights, xs: readonly Row[]): Row[] {
  const { keyHeads, valueHeads, dim, epsilon, product, tensor, isGrouped } = net;
  const group = valueHeads / keyHeads;
  const keyOf = (head: number) => (isGrouped ? Math.floor(head / group) : head % keyHeads);
  const mixed = xs.map((x) => product('attn_qkv', x));
  const kernel = tensor('ssm_conv1d.weight');
  const taps = kernel.length / mixed[0]!.length;
  const convolved = mixed.map((_, position) =>
    mixed[position]!.map((_, channel) => {
      let sum = 0;
      for (let back = 0; back < taps && back <= position; back++)
        sum += mixed[position - back]![channel]! * kernel[channel * taps + taps - 1 - back]!;
      return silu(sum);
    }),
  );
  const unit = (head: Row): Row => {
    const length = Math.max(Math.sqrt(head.reduce((sum, value) => sum + value * value, 0)), epsilon);
    return head.map((value) => value / length);
  };
  const states = Array.from({ length: valueHeads }, () => new Float64Array(dim * dim));
  const weight = tensor('ssm_norm.weight');
  return xs.map((x, position) => {
    const gate = product('attn_gate', x);
    const [beta, alpha] = isGrouped
      ? apart(product('ssm_ba', x), group)
      : ([product('ssm_beta', x), product('ssm_alpha', x)] as const);
    const head = (index: number): Row => convolved[position]!.slice(index * dim, (index + 1) * dim);
    const out = new Float64Array(valueHeads * dim);
    for (const [index, state] of states.entries()) {
      const [q, k] = [unit(head(keyOf(index))), unit(head(keyHeads + keyOf(index)))];
      const v = head(2 * keyHeads + index);
      const decay = Math.exp(
        tensor('ssm_a')[index]! * Math.log(1 + Math.exp(alpha[index]! + tensor('ssm_dt.bias')[index]!)),
      );
      for (let i = 0; i < state.length; i++) state[i]! *= decay;
      for (let column = 0; column < dim; column++) {
        let recalled = 0;
        for (let row = 0; row < dim; row++) recalled += k[row]! * state[row * dim + column]!;
        const learnt = sigmoid(beta[index]!) * (v[column]! - recalled);
        for (let row = 0; row < dim; row++) state[row * dim + column]! += k[row]! * learnt;
      }
      const read = Float64Array.from({ length: dim }, (_, column) =>
        q.reduce((sum, value, row) => sum + (value / Math.sqrt(dim)) * state[row * dim + column]!, 0),
      );
      const scale = 1 / Math.sqrt(read.reduce((sum, value) => sum + value * value, 0) / dim + epsilon);
      for (let i = 0; i < dim; i++) out[index * dim + i] = read[i]! * scale * weight[i]! * silu(gate[index * dim + i]!);
    }
    return product('ssm_out', out);
  });
}
