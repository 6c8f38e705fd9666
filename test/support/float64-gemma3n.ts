import { dot, type GemmaWeights, gemmaParts, plus, type Row, times } from './float64-gemma4.js';

const STREAMS = 4;

/** Gemma 3n's text model as transformers' modeling_gemma3n.py defines it, position by position; no caches. */
export function float64Gemma3n(weights: GemmaWeights, tokens: readonly number[]): Row[] {
  const { tensor, product, productOf, perLayer, activation } = weights;
  const { hidden, layers, norm, attend, embedded, inputs: inputsOf, logits } = gemmaParts(weights, tokens);
  const deviations = perLayer('activation_sparsity_scale');
  const asLongAs = (x: Row, y: Row): Row => times(y, Math.sqrt(dot(x, x) / dot(y, y)));
  const product3 = (name: string, i: number, x: Row): Row => productOf(name, i, STREAMS - 1, x);

  const sparse = (gates: Row, layer: number): Row => {
    const by = deviations[layer]!;
    if (by === Number.NEGATIVE_INFINITY) return gates;
    const mean = gates.reduce((sum, gate) => sum + gate, 0) / gates.length;
    const variance = gates.reduce((sum, gate) => sum + (gate - mean) ** 2, 0) / (gates.length - 1);
    return gates.map((gate) => Math.max(gate - mean - by * Math.sqrt(variance), 0));
  };
  const mlp = (layer: number, x: Row): Row => {
    const up = product(`blk.${layer}.ffn_up`, x);
    const gates = sparse(product(`blk.${layer}.ffn_gate`, x), layer);
    return product(
      `blk.${layer}.ffn_down`,
      gates.map((gate, i) => activation(gate) * up[i]!),
    );
  };
  /** One vector of so many rows of coefficients. */
  const shares = (block: string, name: string, x: Row): Row => {
    const scores = product(`${block}.altup_router`, times(norm(`${block}.altup_router_norm`, x), 1 / hidden));
    return product(`${block}.${name}`, scores.map(Math.tanh));
  };

  const first = embedded();
  const inputs = inputsOf(first);
  let streams = first.map((x): Row[] => [x, ...[0, 1, 2].map((i) => asLongAs(x, product3('altup_proj', i, x)))]);
  for (let layer = 0; layer < layers; layer++) {
    const block = `blk.${layer}`;
    const predicted = streams.map((own) => {
      const by = shares(block, 'altup_predict_coef', own[0]!);
      return own.map((stream, i) =>
        own.reduce<Row>((sum, other, j) => plus(sum, times(other, by[i * STREAMS + j]!)), stream),
      );
    });
    const normed = predicted.map(([active]) => norm(`${block}.attn_norm`, active!));
    const attended = attend(layer, normed);
    streams = predicted.map((own, position) => {
      const x = normed[position]!;
      const laurel = plus(
        x,
        norm(`${block}.laurel_post_norm`, product(`${block}.laurel_r`, product(`${block}.laurel_l`, x))),
      );
      const gated = plus(own[0]!, norm(`${block}.post_attention_norm`, attended[position]!));
      const both = times(plus(gated, laurel), Math.SQRT1_2);
      const activated = plus(both, norm(`${block}.post_ffw_norm`, mlp(layer, norm(`${block}.ffn_norm`, both))));
      const by = shares(block, 'altup_correct_coef', activated);
      const innovation = plus(activated, times(own[0]!, -1));
      const corrected = own.map((stream, i) => plus(stream, times(innovation, 1 + by[i]!)));
      const scale = tensor(`${block}.altup_correct_scale.weight`);
      const gates = product(
        `${block}.inp_gate`,
        corrected[0]!.map((value, i) => value * scale[i]!),
      );
      const input = inputs[position]![layer]!;
      const added = product(
        `${block}.proj`,
        gates.map((gate, i) => activation(gate) * input[i]!),
      );
      return corrected.map((stream, i) => (i === 0 ? stream : plus(stream, norm(`${block}.post_norm`, added))));
    });
  }
  return streams.map((own) => {
    const merged = own.map((stream, i) =>
      i === 0 ? stream : asLongAs(own[0]!, product3('altup_unembd_proj', i - 1, stream)),
    );
    return logits(times(merged.reduce(plus), 1 / STREAMS));
  });
}
