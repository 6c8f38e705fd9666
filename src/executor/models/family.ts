import type { Experts as ExpertParameters } from '../../lib/gguf/experts.js';
import type { MambaStates, Recurrent, ShortConvolutions } from '../../lib/gguf/recurrent.js';
import type { ServableModel } from '../../lib/gguf/servable-model.js';
import type { Xielu } from '../../lib/gguf/xielu.js';
import type { BiasRef, MatrixRef, TensorCatalog, VectorRef } from '../model/tensors.js';
import {
  type Attention,
  type Experts,
  type Gated,
  type Linear,
  type ModelGraph,
  type Norm,
  type QkNorm,
  type Residual,
  type Rope,
  type RowGated,
  type Scaled,
  type Value,
  x,
} from '../model/values.js';

const layerOf = (block: string): number => Number(block.slice('blk.'.length));

/** A model family: how its layers are composed. */
export interface Family {
  /** `general.architecture` of its files. */
  readonly name: string;
  /** @param predicts with the block that predicts further tokens, if the family and the file have one */
  build(model: ServableModel, tensors: TensorCatalog, predicts?: boolean): ModelGraph;
}

/** Optional parts of an attention layer beside its projections. */
export interface AttentionOptions {
  readonly qkNorm?: QkNorm | undefined;
  /** True for sliding window attention, over the model's window. */
  readonly isSlidingWindow?: boolean;
  /** Attention sinks, `[heads]`. */
  readonly sinks?: VectorRef;
  /** Each head of q has its gate behind it. */
  readonly isGated?: true;
}

/** Building blocks of a family's layers, with sizes from the model's parameters. Families name their instance `l`, for layers. */
export class Layers {
  constructor(
    protected readonly model: ServableModel,
    protected readonly tensors: TensorCatalog,
  ) {}

  /** The tensor `token_embd`.weight, a row a token. */
  embedding(): MatrixRef {
    return this.matrix('token_embd', this.model.vocabularyRows, this.model.hiddenSize);
  }

  /** The embedding, or the matrix of that name where the file has none. */
  embeddingOr(name: string): MatrixRef {
    const { vocabularyRows, hiddenSize } = this.model;
    const isOther = !this.tensors.has('token_embd.weight') && this.tensors.has(`${name}.weight`);
    return isOther ? this.matrix(name, vocabularyRows, hiddenSize) : this.embedding();
  }

  /** The tensor `name`.weight, `[rows, columns]`. */
  matrix(name: string, rows: number, columns: number): MatrixRef {
    return this.tensors.matrix(`${name}.weight`, rows, columns);
  }

  /** The matrix of that name, or the embedding where the file has none: a tied output projection. */
  matrixOrEmbedding(name: string): MatrixRef {
    const { vocabularyRows, hiddenSize } = this.model;
    return this.tensors.has(`${name}.weight`) ? this.matrix(name, vocabularyRows, hiddenSize) : this.embedding();
  }

  /** RMS norm by the tensor `name`.weight. */
  rmsNorm(name: string, of: Residual | Value = x): Norm {
    const weight = this.tensors.vector(`${name}.weight`, this.model.hiddenSize);
    return { kind: 'norm', weight, epsilon: this.model.rmsNormEpsilon, of };
  }

  /** LayerNorm by the tensor `name`.weight, and `name`.bias if there is one. */
  layerNorm(name: string): Norm {
    const { hiddenSize } = this.model;
    const bias = this.tensors.has(`${name}.bias`) ? this.tensors.vector(`${name}.bias`, hiddenSize) : undefined;
    return { ...this.rmsNorm(name), isCentered: true, bias };
  }

  /** Norms of q and k by the block's `attn_q_norm` and `attn_k_norm`. @param after RoPE before them, if not behind them */
  qkNorm(block: string, over: QkNorm['over'] = 'head', after?: Rope): QkNorm {
    const { heads, kvHeads, headDim, rmsNormEpsilon } = this.model;
    const weight = (name: string, count: number): VectorRef => {
      const tensor = `${block}.${name}.weight`;
      if (over === 'own-head') return this.tensors.vectors(tensor, count, headDim);
      return this.tensors.vector(tensor, over === 'head' ? headDim : count * headDim);
    };
    const [query, key] = [weight('attn_q_norm', heads), weight('attn_k_norm', kvHeads)];
    return { over, query, key, epsilon: rmsNormEpsilon, after };
  }

  /** The block's `attn_q`, `attn_k` and `attn_v` side by side, or its `attn_qkv`, which is all three; biases if it has them. */
  qkv(block: string, of: Residual | Value): Linear {
    const { heads, kvHeads, headDim } = this.model;
    const parts = [
      [`${block}.attn_q`, heads * headDim],
      [`${block}.attn_k`, kvHeads * headDim],
      [`${block}.attn_v`, kvHeads * headDim],
    ] as const;
    const joined = `${block}.attn_qkv`;
    if (!this.tensors.has(`${joined}.weight`)) return this.project(parts, this.model.hiddenSize, of);
    const product = this.project([[joined, (heads + 2 * kvHeads) * headDim]], this.model.hiddenSize, of);
    return product.biases === undefined ? { ...product, biases: this.biases(parts) } : product;
  }

  /** The same, where `attn_q` has the gate of each head behind it. */
  gatedQkv(block: string, of: Residual | Value): Linear {
    const { heads, kvHeads, headDim } = this.model;
    const parts = [
      [`${block}.attn_q`, 2 * heads * headDim],
      [`${block}.attn_k`, kvHeads * headDim],
      [`${block}.attn_v`, kvHeads * headDim],
    ] as const;
    return this.project(parts, this.model.hiddenSize, of);
  }

  /** The layer among those of its kind: among gated delta nets, or among layers with keys and values. */
  amongItsKind(layer: number): number {
    const before = this.recurrent.layers.slice(0, layer);
    return before.filter((isNet, i) => isNet === this.isRecurrent(layer) && !this.isFfn(i)).length;
  }

  /** True if the layer is an FFN alone. */
  isFfn(layer: number): boolean {
    return this.model.traits.ffnLayers?.[layer] === true;
  }

  isRecurrent(layer: number): boolean {
    return this.recurrent.layers[layer] === true;
  }

  protected get recurrent(): Recurrent | ShortConvolutions | MambaStates {
    const { recurrent } = this.model.traits;
    if (recurrent === undefined) throw new Error(`${this.model.architecture} has no recurrent layers`);
    return recurrent;
  }

  /** Output projection of an attention: the block's `attn_output`. */
  attentionOutput(block: string, of: Attention): Linear {
    return this.project([[`${block}.attn_output`, this.model.hiddenSize]], of.heads * of.headDim, of);
  }

  /** The block's gated MLP of `ffn_gate`, `ffn_up` and `ffn_down`; without a gate `ffn_up` is gate and up below each other. */
  mlp(block: string, of: Residual | Value, activation: Gated['activation'] = 'silu'): Linear {
    return this.gatedMlp(block, '', this.model.ffnSize, of, activation);
  }

  private gatedMlp(
    block: string,
    suffix: string,
    ffnSize: number,
    of: Residual | Value,
    activation: Gated['activation'] = 'silu',
  ): Linear {
    const { hiddenSize } = this.model;
    const [gate, up, down] = ['gate', 'up', 'down'].map((part) => `${block}.ffn_${part}${suffix}`) as [
      string,
      string,
      string,
    ];
    const { ungated } = this.model.traits;
    if (ungated !== undefined) {
      const activated = typeof ungated === 'string' ? ungated : (ungated[layerOf(block)] as Xielu);
      const product = this.project([[up, ffnSize]], hiddenSize, of);
      return this.project([[down, hiddenSize]], ffnSize, { kind: 'activated', activation: activated, of: product });
    }
    const parts = this.tensors.has(`${gate}.weight`)
      ? ([
          [gate, ffnSize],
          [up, ffnSize],
        ] as const)
      : ([[up, 2 * ffnSize]] as const);
    const gated: Gated = { kind: 'gated', activation, of: this.project(parts, hiddenSize, of) };
    return this.project([[down, hiddenSize]], ffnSize, gated);
  }

  /**
   * Output of the block's FFN: its experts, and the shared expert if there is one; of a dense block
   * its gated MLP.
   */
  ffn(block: string, layer: number, of: Residual | Value, activation?: Experts['activation']): Value {
    const { experts, traits } = this.model;
    if (experts === undefined || layer < experts.denseLayers) return this.added(this.mlp(block, of));
    const routed = this.added(
      this.experts(block, experts, of, activation ?? (traits.ungated === 'relu-squared' ? traits.ungated : 'silu')),
    );
    if (experts.sharedFfnSize === 0) return routed;
    const shared = this.gatedMlp(block, '_shexp', experts.sharedFfnSize, of);
    return { kind: 'sum', of: [routed, this.added(this.rowGated(`${block}.ffn_gate_inp_shexp`, of, shared))] };
  }

  /** The block's `ffn_gate_exps`, `ffn_up_exps` (or both as `ffn_gate_up_exps`) and `ffn_down_exps`, chosen by `ffn_gate_inp`, and by `exp_probs_b` if it is there. */
  protected experts(
    block: string,
    parameters: ExpertParameters,
    of: Residual | Value,
    activation: Experts['activation'],
  ): Experts {
    const { hiddenSize } = this.model;
    const { count, usedPerToken: used, ffnSize, scoring, isNormalized, scale, groups } = parameters;
    const matrices = (name: string, rows: number, columns: number) =>
      this.tensors.matrices(`${block}.${name}.weight`, count, rows, columns);
    const gateAndUp = this.tensors.has(`${block}.ffn_gate_up_exps.weight`)
      ? { gateUp: matrices('ffn_gate_up_exps', 2 * ffnSize, hiddenSize) }
      : {
          gate: activation === 'relu-squared' ? undefined : matrices('ffn_gate_exps', ffnSize, hiddenSize),
          up: matrices('ffn_up_exps', ffnSize, hiddenSize),
        };
    const bias = `${block}.exp_probs_b.bias`;
    const choiceBias = this.tensors.has(bias) ? this.tensors.vector(bias, count) : undefined;
    const weight = this.tensors.floats(`${block}.ffn_gate_inp.weight`, count, hiddenSize);
    const added = `${block}.ffn_gate_inp.bias`;
    const scoreBias = this.tensors.has(added) ? this.tensors.vector(added, count) : undefined;
    const biases = (name: string, rows: number) => this.tensors.vectors(`${block}.${name}.bias`, count, rows);
    return {
      kind: 'experts',
      router: { weight, bias: scoreBias, used, scoring, isNormalized, scale, choiceBias, groups },
      ...(this.tensors.has(`${block}.ffn_gate_exps.bias`) && {
        biases: {
          gate: biases('ffn_gate_exps', ffnSize),
          up: biases('ffn_up_exps', ffnSize),
          down: biases('ffn_down_exps', hiddenSize),
        },
      }),
      ...gateAndUp,
      ffn: ffnSize,
      down: matrices('ffn_down_exps', hiddenSize, ffnSize),
      activation,
      of,
    };
  }

  /** The value times the sigmoid of a product with the vector of that name, or as it is where there is none. */
  private rowGated(name: string, by: Residual | Value, of: Value): Value | RowGated {
    if (!this.tensors.has(`${name}.weight`)) return of;
    return { kind: 'row-gated', gate: this.tensors.vector(`${name}.weight`, this.model.hiddenSize), by, of };
  }

  linear(weights: readonly MatrixRef[], of: Residual | Value, biases?: readonly BiasRef[]): Linear {
    return { kind: 'linear', weights, biases, of };
  }

  /** Grouped-query attention with the model's heads. */
  attention(
    layer: number,
    qkv: Linear,
    rope: Rope,
    { qkNorm, isSlidingWindow = false, sinks, isGated }: AttentionOptions = {},
  ): Attention {
    const { heads, kvHeads, headDim, contextLength, traits } = this.model;
    const scale = traits.attentionScale ?? 1 / Math.sqrt(headDim);
    const size = isSlidingWindow ? (traits.window?.size ?? contextLength) : contextLength;
    // A window at least as long as the context masks nothing.
    const window = size < contextLength ? size : undefined;
    const shape = { heads, kvHeads, headDim, scale, window, softcap: traits.attentionSoftcap };
    return { kind: 'attention', layer, qkv, isGated, ...shape, rope, qkNorm, sinks };
  }

  /** True if the layer has sliding window attention. */
  isSlidingWindow(layer: number): boolean {
    return this.model.traits.window?.layers[layer] ?? false;
  }

  /** Value that a block adds to the residual stream, times the model's residual scale. */
  added(value: Value): Value | Scaled {
    const factor = this.model.traits.residualScale;
    return factor === undefined ? value : { kind: 'scaled', factor, of: value };
  }

  /**
   * RoPE of the model. Frequencies are divided by `rope_freqs.weight`, or by one of `rope_factors_short` and `rope_factors_long`
   * (llama.cpp's `freq_factors`). With YaRN the magnitude (`attn_factor`) is that of Peng et al. (2023).
   */
  rope(pairing: Rope['pairing']): Rope {
    const { ropeDimensions, ropeFreqBase, ropeScaling, originalContextLength, traits } = this.model;
    if (traits.isUnrotated) return this.unrotated(pairing);
    const { factor = 1, yarn } = ropeScaling ?? {};
    const grown = (multiplier: number): number => (factor <= 1 ? 1 : 1 + 0.1 * multiplier * Math.log(factor));
    const mixes = yarn !== undefined && yarn.extrapolation !== 0;
    const magnitude = mixes ? grown(1) / grown(yarn.logMultiplier) : 1;
    return {
      dimensions: ropeDimensions,
      pairing,
      base: ropeFreqBase,
      factor,
      yarn: yarn && { ...yarn, originalContextLength },
      magnitude: magnitude * (this.model.ropeAttentionFactor ?? 1),
      divisors: this.ropeDivisors(),
      temperature: traits.temperature,
    };
  }

  /** RoPE of sliding window layers: with a base of their own, without scaling. */
  windowRope(pairing: Rope['pairing']): Rope {
    const base = this.model.traits.window?.ropeFreqBase ?? this.model.ropeFreqBase;
    const dimensions = this.model.traits.window?.ropeDimensions ?? this.model.ropeDimensions;
    return { dimensions, pairing, base, factor: 1, magnitude: 1, divisors: undefined };
  }

  /** RoPE of layers without positions (NoPE): all angles are 0. */
  unrotated(pairing: Rope['pairing']): Rope {
    return { ...this.windowRope(pairing), factor: Number.POSITIVE_INFINITY };
  }

  /** The logits of the rows that are sampled; rows of the matrix that no token has are never computed. */
  logits(output: MatrixRef, of: Value): Linear {
    const { vocabularyRows, vocabularySize: rows } = this.model;
    const biases = this.biases([['output', vocabularyRows]])?.map((bias) => ({ ...bias, length: rows }));
    return this.linear([{ ...output, rows }], of, biases);
  }

  /** Values that each of the model's blocks adds to the residual stream. */
  eachBlock(adds: (block: string, index: number) => readonly Value[]): readonly Value[] {
    return Array.from({ length: this.model.layers }, (_, index) => adds(`blk.${index}`, index)).flat();
  }

  private ropeDivisors(): Rope['divisors'] {
    const { ropeDimensions, ropeScaling, originalContextLength } = this.model;
    const vector = (name: string) => this.tensors.vector(name, ropeDimensions / 2);
    if (this.tensors.has('rope_freqs.weight')) return vector('rope_freqs.weight');
    const [short, long] = ['rope_factors_short.weight', 'rope_factors_long.weight'] as const;
    const isLong = ropeScaling?.type === 'longrope' || this.tensors.has(short) || this.tensors.has(long);
    if (!isLong) return undefined;
    return { short: vector(short), long: vector(long), originalContextLength };
  }

  /** Matrices of one input side by side, with their biases. */
  protected project(
    parts: readonly (readonly [name: string, rows: number])[],
    columns: number,
    of: Residual | Value,
  ): Linear {
    const weights = parts.map(([name, rows]) => this.matrix(name, rows, columns));
    return this.linear(weights, of, this.biases(parts));
  }

  /** The biases that the file has of these; undefined where it has none. */
  private biases(parts: readonly (readonly [name: string, rows: number])[]): readonly BiasRef[] | undefined {
    const has = (name: string) => this.tensors.has(`${name}.bias`);
    if (!parts.some(([name]) => has(name))) return undefined;
    return parts.map(([name, length]) => (has(name) ? this.tensors.vector(`${name}.bias`, length) : { length }));
  }
}
