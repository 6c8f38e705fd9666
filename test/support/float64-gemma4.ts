export type Row = Float64Array<ArrayBufferLike>;

/** A file's tensors in double precision, and what is common to all architectures. */
export interface GemmaWeights {
  readonly tensor: (name: string) => Row;
  readonly has: (name: string) => boolean;
  /** The product of a row with the matrix of that name, without `.weight`. */
  readonly product: (name: string, x: Row) => Row;
  /** The same of one of an expert's matrices. */
  readonly productOf: (name: string, which: number, count: number, x: Row) => Row;
  readonly number: (key: string, otherwise?: number) => number;
  /** A list of the architecture's, or one number for each layer. */
  readonly perLayer: (key: string) => readonly number[];
  /** GELU as it is computed. */
  readonly activation: (gate: number) => number;
  readonly onGap: (gap: number, layer: number, position: number) => void;
}

export const dot = (a: Row, b: Row): number => a.reduce((sum, value, i) => sum + value * b[i]!, 0);
export const times = (x: Row, factor: number): Row => x.map((value) => value * factor);
export const plus = (a: Row, b: Row): Row => a.map((value, i) => value + b[i]!);
const softmax = (scores: readonly number[]): number[] => {
  const largest = Math.max(...scores);
  const exponentials = scores.map((score) => Math.exp(score - largest));
  const total = exponentials.reduce((sum, value) => sum + value, 0);
  return exponentials.map((value) => value / total);
};

/** Attention of Gemma 3n and 4, and inputs of their layers, position by position; no caches. */
export interface GemmaParts {
  readonly hidden: number;
  readonly layers: number;
  /** Width of each layer's inputs; 0: there are none. */
  readonly width: number;
  /** RMS norm without a weight. */
  readonly normed: (x: Row, weight?: Row) => Row;
  /** RMS norm by the tensor of that name, without `.weight`. */
  readonly norm: (name: string, x: Row) => Row;
  readonly attend: (layer: number, xs: readonly Row[]) => Row[];
  /** The scaled embedding of each token. */
  readonly embedded: () => Row[];
  /** Inputs of all layers, by position and layer. */
  readonly inputs: (xs: readonly Row[]) => Row[][];
  readonly logits: (x: Row) => Row;
}

/** {@link GemmaParts} of a file and a text. */
export function gemmaParts(weights: GemmaWeights, tokens: readonly number[]): GemmaParts {
  const { tensor, has, product, number, perLayer } = weights;
  const hidden = number('embedding_length');
  const layers = number('block_count');
  const heads = number('attention.head_count');
  const epsilon = number('attention.layer_norm_rms_epsilon');
  const windowed = perLayer('attention.sliding_window_pattern').map((flag) => flag === 1);
  const window = number('attention.sliding_window');
  const firstShared = layers - number('attention.shared_kv_layers', 0);
  const width = number('embedding_length_per_layer_input', 0);
  const cap = number('final_logit_softcapping', 30);
  const normed = (x: Row, weight?: Row): Row => {
    const scale = 1 / Math.sqrt(dot(x, x) / x.length + epsilon);
    return x.map((value, i) => value * scale * (weight?.[i] ?? 1));
  };
  const norm = (name: string, x: Row): Row => normed(x, tensor(`${name}.weight`));
  const split = (x: Row, size: number): Row[] =>
    Array.from({ length: x.length / size }, (_, i) => x.slice(i * size, (i + 1) * size));

  /** Half of a head turns with the other half; of global heads the first quarter of the pairs alone. */
  const rotated = (head: Row, position: number, isSlidingWindow: boolean): Row => {
    const base = isSlidingWindow ? number('rope.freq_base_swa', 10_000) : number('rope.freq_base');
    const half = head.length / 2;
    const divisors = isSlidingWindow || !has('rope_freqs.weight') ? undefined : tensor('rope_freqs.weight');
    const y = head.slice();
    for (let j = 0; j < half; j++) {
      const angle = (position * base ** (-j / half)) / (divisors?.[j] ?? 1);
      const [a, b] = [head[j]!, head[j + half]!];
      y[j] = a * Math.cos(angle) - b * Math.sin(angle);
      y[j + half] = b * Math.cos(angle) + a * Math.sin(angle);
    }
    return y;
  };

  const kept = new Map<number, readonly { keys: Row[]; values: Row[] }[]>();
  const attend = (layer: number, xs: readonly Row[]): Row[] => {
    const block = `blk.${layer}`;
    const isSlidingWindow = windowed[layer]!;
    const globalSize = number('attention.key_length');
    const size = isSlidingWindow ? number('attention.key_length_swa', globalSize) : globalSize;
    if (layer < firstShared) {
      kept.set(
        layer,
        xs.map((x, position) => {
          const k = product(`${block}.attn_k`, x);
          const v = has(`${block}.attn_v.weight`) ? product(`${block}.attn_v`, x) : k;
          const keys = split(k, size).map((head) =>
            rotated(norm(`${block}.attn_k_norm`, head), position, isSlidingWindow),
          );
          return { keys, values: split(v, size).map((head) => normed(head)) };
        }),
      );
    }
    const own = layer < firstShared ? layer : windowed.lastIndexOf(isSlidingWindow, firstShared - 1);
    const rows = kept.get(own)!;
    return xs.map((x, position) => {
      const seen = rows.slice(isSlidingWindow ? Math.max(0, position - window + 1) : 0, position + 1);
      const queries = split(product(`${block}.attn_q`, x), size);
      const out = queries.map((query, head) => {
        const q = rotated(norm(`${block}.attn_q_norm`, query), position, isSlidingWindow);
        const kv = Math.floor((head * seen[0]!.keys.length) / heads);
        const shares = softmax(seen.map(({ keys }) => dot(keys[kv]!, q)));
        return seen.reduce<Row>(
          (sum, { values }, i) => plus(sum, times(values[kv]!, shares[i]!)),
          new Float64Array(size),
        );
      });
      return product(`${block}.attn_output`, Float64Array.from(out.flatMap((head) => [...head])));
    });
  };

  const rowOf = (table: string, token: number, size: number): Row =>
    tensor(`${table}.weight`).slice(token * size, (token + 1) * size);
  const embedded = () => tokens.map((token) => times(rowOf('token_embd', token, hidden), Math.sqrt(hidden)));
  const inputs = (xs: readonly Row[]) =>
    xs.map((x, i) => {
      if (width === 0) return [];
      const rows = split(rowOf('per_layer_token_embd', tokens[i]!, layers * width), width);
      const projected = split(times(product('per_layer_model_proj', x), 1 / Math.sqrt(hidden)), width);
      return projected.map((row, layer) =>
        times(plus(norm('per_layer_proj_norm', row), times(rows[layer]!, Math.sqrt(width))), Math.SQRT1_2),
      );
    });
  const logits = (x: Row) => product('token_embd', norm('output_norm', x)).map((logit) => cap * Math.tanh(logit / cap));
  return { hidden, layers, width, normed, norm, attend, embedded, inputs, logits };
}

/** Gemma 4's text model as transformers' modeling_gemma4.py defines it, position by position; no caches. */
export function float64Gemma4(weights: GemmaWeights, tokens: readonly number[]): Row[] {
  const { tensor, has, product, productOf, number, activation } = weights;
  const {
    hidden,
    layers,
    width,
    normed,
    norm,
    attend,
    embedded,
    inputs: inputsOf,
    logits,
  } = gemmaParts(weights, tokens);

  const mlp = (block: string, x: Row): Row => {
    const up = product(`${block}.ffn_up`, x);
    const gated = product(`${block}.ffn_gate`, x).map((gate, i) => activation(gate) * up[i]!);
    return product(`${block}.ffn_down`, gated);
  };
  const mixture = (layer: number, x: Row, position: number): Row => {
    const block = `blk.${layer}`;
    const [count, used] = [number('expert_count'), number('expert_used_count')];
    const scale = tensor(`${block}.ffn_gate_inp.scale`);
    const scores = product(
      `${block}.ffn_gate_inp`,
      normed(x).map((value, i) => (value * scale[i]!) / Math.sqrt(hidden)),
    );
    const ranked = [...scores.keys()].sort((a, b) => scores[b]! - scores[a]!);
    weights.onGap(scores[ranked[used - 1]!]! - scores[ranked[used]!]!, layer, position);
    const chosen = ranked.slice(0, used);
    const shares = softmax(chosen.map((expert) => scores[expert]!));
    const input = norm(`${block}.pre_ffw_norm_2`, x);
    return chosen.reduce<Row>((sum, expert, i) => {
      const both = productOf(`${block}.ffn_gate_up_exps`, expert, count, input);
      const [gate, up] = [both.slice(0, both.length / 2), both.slice(both.length / 2)];
      const gated = gate.map((value, j) => activation(value) * up[j]!);
      const made = productOf(`${block}.ffn_down_exps`, expert, count, gated);
      return plus(sum, times(made, shares[i]! * tensor(`${block}.ffn_down_exps.scale`)[expert]!));
    }, new Float64Array(hidden));
  };
  const feedForward = (layer: number, x: Row, position: number): Row => {
    const block = `blk.${layer}`;
    const dense = mlp(block, norm(`${block}.ffn_norm`, x));
    if (!has(`${block}.ffn_gate_inp.weight`)) return dense;
    const routed = norm(`${block}.post_ffw_norm_2`, mixture(layer, x, position));
    return plus(norm(`${block}.post_ffw_norm_1`, dense), routed);
  };

  let xs = embedded();
  const inputs = inputsOf(xs);
  for (let layer = 0; layer < layers; layer++) {
    const block = `blk.${layer}`;
    const attended = attend(
      layer,
      xs.map((x) => norm(`${block}.attn_norm`, x)),
    );
    xs = xs.map((x, position) => {
      let y = plus(x, norm(`${block}.post_attention_norm`, attended[position]!));
      y = plus(y, norm(`${block}.post_ffw_norm`, feedForward(layer, y, position)));
      if (width > 0) {
        const own = inputs[position]![layer]!;
        const gated = product(`${block}.inp_gate`, y).map((gate, i) => activation(gate) * own[i]!);
        y = plus(y, norm(`${block}.post_norm`, product(`${block}.proj`, gated)));
      }
      return times(y, tensor(`${block}.layer_output_scale.weight`)[0]!);
    });
  }
  return xs.map(logits);
}
