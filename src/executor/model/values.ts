// One file because it is one union: each kind of value refers to the others, and every walk over them names all.
import type { Yarn } from '../../lib/gguf/model-parameters.js';
import type { Xielu } from '../../lib/gguf/xielu.js';
import type { BiasRef, MatrixRef, VectorRef } from './tensors.js';

/**
 * Values that a family's layers compute, described before anything is allocated or launched. No value refers to a buffer, and
 * only {@link ModelGraph.residualBranches} says which values are added to the residual stream.
 */
export type Value =
  | Norm
  | Linear
  | Attention
  | LatentAttention
  | DeltaNet
  | ShortConv
  | Mamba
  | Gated
  | Activated
  | LayerGated
  | MixedStreams
  | OtherStreams
  | CorrectedStream
  | Scaled
  | Rescaled
  | Renormed
  | Sum
  | Experts
  | RowGated
  | RankSum;

/** The residual stream as it is when the value is computed. */
export const x = { kind: 'residual' } as const;
export type Residual = typeof x;

/** of / sqrt(mean(of²) + eps) · weight; Zhang & Sennrich (2019). */
export interface Norm {
  readonly kind: 'norm';
  /** of's mean is subtracted from it first: LayerNorm; Ba, Kiros & Hinton (2016). */
  readonly isCentered?: true;
  /** `[columns]` */
  readonly weight: VectorRef;
  /** Added at the end, `[columns]`; undefined: nothing is. */
  readonly bias?: VectorRef | undefined;
  readonly epsilon: number;
  readonly of: Residual | Value;
}

/** The products of several matrices with one input, side by side: `[rows, sum of their rows]`. */
export interface Linear {
  readonly kind: 'linear';
  /** Each `[rows, columns]`; uploaded side by side where one launch can then multiply them all. */
  readonly weights: readonly MatrixRef[];
  /** Added to the products, side by side: of all matrices together as many rows as they have. */
  readonly biases: readonly BiasRef[] | undefined;
  readonly of: Residual | Value;
}

/**
 * RoPE: pair j of a head is rotated by position · base^(-2j / dimensions) / divisors[j], with the position scaled as `factor` and
 * `yarn` say; Su et al. (2021).
 */
export interface Rope {
  /** Elements of a head that are rotated, from its first on: llama.cpp's `n_rot`. */
  readonly dimensions: number;
  /**
   * Elements that are rotated together as pair j. interleaved: (2j, 2j + 1), llama.cpp's `LLAMA_ROPE_TYPE_NORM`. neox:
   * (j, j + dimensions / 2), its `LLAMA_ROPE_TYPE_NEOX`. Kernels take it as `adjacent`, 1 for interleaved.
   */
  readonly pairing: 'interleaved' | 'neox';
  readonly base: number;
  /** Positions are divided by it, llama.cpp's 1 / `freq_scale`; infinite: nothing is rotated. */
  readonly factor: number;
  /** YaRN: frequencies that rotate often enough within the original context are not divided. */
  readonly yarn?: YarnRamp | undefined;
  /** Cosines and sines are multiplied by it: the attention factor of YaRN and longrope, llama.cpp's `attn_factor` (mscale). */
  readonly magnitude: number;
  /**
   * `[dimensions / 2]`, llama.cpp's `freq_factors`: the tensor `rope_freqs`, or one of longrope's `rope_factors_short` and
   * `rope_factors_long`, chosen by the served context.
   */
  readonly divisors: VectorRef | RopeDivisors | undefined;
  /**
   * Attention temperature: queries are multiplied by 1 + scale · ln(1 + ⌊position / length⌋); llama.cpp's
   * `n_attn_temp_floor_scale` is the length, `f_attn_temp_scale` the scale.
   */
  readonly temperature?: { readonly scale: number; readonly length: number } | undefined;
}

/** Peng et al. (2023), with the numbers of a file. */
export interface YarnRamp extends Yarn {
  readonly originalContextLength: number;
}

/** Frequency factors of longrope: `long` where the served context exceeds the original one; Ding et al. (2024). */
export interface RopeDivisors {
  readonly short: VectorRef;
  readonly long: VectorRef;
  readonly originalContextLength: number;
}

/** softmax(scale · q kᵀ) v over a sequence's positions up to the row's own: `[rows, heads, head_dim]`. */
export interface Attention {
  readonly kind: 'attention';
  /** Whose keys and values it reads and appends. */
  readonly layer: number;
  /** q, k and v of each row: `[rows, heads + 2 · kv_heads, head_dim]`; where it is gated each head of q has its gate behind it. */
  readonly qkv: Linear;
  /** Attention output is multiplied by the sigmoid of its gate. */
  readonly isGated?: true | undefined;
  readonly heads: number;
  /** Each is shared by heads / kvHeads heads. */
  readonly kvHeads: number;
  readonly headDim: number;
  readonly scale: number;
  /** Sliding window attention: positions that a row sees, its own included; undefined: all. */
  readonly window?: number | undefined;
  /** Scores become softcap · tanh(score / softcap); undefined: they stay. */
  readonly softcap?: number | undefined;
  /** A score more of each head's softmax, `[heads]`, which nothing is added for; Xiao et al. (2024). */
  readonly sinks?: VectorRef | undefined;
  /** Norms of q and k, applied before RoPE. */
  readonly qkNorm: QkNorm | undefined;
  /** Epsilon of an RMS norm, without a weight, of each head of v; undefined: v stays as it is. */
  readonly valueNormEpsilon?: number | undefined;
  /** It has no keys and values of its own: {@link qkv} is q alone, and `layer` is an earlier attention of the same shape. */
  readonly isShared?: true | undefined;
  /** An encoder's: a row sees its whole sequence, which the step holds, and nothing is cached. */
  readonly sight?: EncoderSight | undefined;
  readonly rope: Rope;
}

/** Positions of its sequence that a row of an encoder sees. */
export interface EncoderSight {
  /** Those at most so many before and behind its own; undefined: all. */
  readonly reach?: number | undefined;
  /** Scores of each head are lowered by this times the distance: ALiBi; Press et al. (2022). Undefined: they are not. */
  readonly slopes?: readonly number[] | undefined;
}

/**
 * Multi-head latent attention: the keys and values of all heads are products with one short row, which alone is cached,
 * `[rows, heads, value_dim]`; DeepSeek-V2 (2024), section 2.1. In the absorbed form the products are with queries and with
 * what is attended to: score = scale · (keys[head]ᵀ q_plain · latent + q_rotated · k_rotated), and values[head] of the sum of
 * weighted latents.
 */
export interface LatentAttention {
  readonly kind: 'latent-attention';
  /** Whose keys it reads and appends. */
  readonly layer: number;
  /** `[rows, heads, plain + rotated]`: each head's plain elements before those that are rotated. */
  readonly query: Linear;
  /** `[rows, latent + rotated]`: what keys and values are made of, and the part of all keys that is rotated. */
  readonly compressed: Linear;
  /** `[latent]`, of the RMS norm of the latent part. */
  readonly norm: VectorRef;
  readonly epsilon: number;
  /** `[heads, latent, plain]` */
  readonly keys: MatrixRef;
  /** `[heads, value_dim, latent]` */
  readonly values: MatrixRef;
  readonly heads: number;
  readonly plain: number;
  readonly latent: number;
  readonly valueDim: number;
  readonly scale: number;
  /** Its dimensions are all of the rotated part. */
  readonly rope: Rope;
}

/** Values that attend to keys and values of earlier positions. */
export const isAttention = (value: Value): value is Attention | LatentAttention =>
  value.kind === 'attention' || value.kind === 'latent-attention';

/** Elements of the key that all heads of latent attention share. */
export const latentKeyDim = ({ latent, rope }: LatentAttention): number => latent + rope.dimensions;

/**
 * Gated delta net over the rows of a sequence, each of which changes a state that stays: `[rows, value_heads, dim]`; Yang,
 * Kautz & Hatamizadeh (2025). With q, k and v convolved along the rows, and q and k of length 1:
 * S *= e^(rate · ln(1 + e^(alpha + bias))); S += sigmoid(beta) (v - S k) kᵀ; and of S q / √dim, the norm of each head times
 * silu(gate).
 */
export interface DeltaNet {
  readonly kind: 'delta-net';
  /** Whose state it is, counted among such layers. */
  readonly layer: number;
  /** Inputs of each row, side by side: q and k, `[key_heads, dim]`; v and gate, `[value_heads, dim]`; beta and alpha, `[value_heads]`. */
  readonly of: Linear;
  /** Value head i takes the key head i mod keyHeads; grouped: those of a key head follow each other. */
  readonly keyHeads: number;
  readonly valueHeads: number;
  readonly dim: number;
  /** Value heads are grouped by their key heads, and beta and alpha are `[key_heads, 2, value_heads / key_heads]`. */
  readonly isGrouped?: true | undefined;
  /** `[(2 · key_heads + value_heads) · dim, 4]`: of a row and the three before it, its own last. */
  readonly convolution: VectorRef;
  /** `[value_heads]`, below zero. */
  readonly rate: VectorRef;
  /** `[value_heads]` */
  readonly bias: VectorRef;
  /** `[dim]`, of the norm of each head. */
  readonly norm: VectorRef;
  readonly epsilon: number;
}

/**
 * Gated convolution over the latest rows of a sequence, whose products stay as a state: `[rows, columns]`; LFM2 (Liquid AI,
 * 2025): c · sum_j weight[j] · (b · x)[t - taps + 1 + j].
 */
export interface ShortConv {
  readonly kind: 'short-conv';
  /** Whose state it is, counted among such layers. */
  readonly layer: number;
  /** b, c and x of each row: `[rows, 3, columns]`. */
  readonly of: Linear;
  readonly columns: number;
  /** Rows that it sees, a row's own included. */
  readonly taps: number;
  /** `[columns, taps]`, a row's own last. */
  readonly convolution: VectorRef;
}

/**
 * Mamba 2 over the rows of a sequence, each of which changes a state that stays: `[rows, heads, dim]`; Dao & Gu (2024). x, b and c
 * are convolved along the rows; S = e^(dt · rate) S + dt · x bᵀ with dt = ln(1 + e^(dt + bias)); (S c + skip · x) · silu(gate), and
 * the norm of each group of heads.
 */
export interface Mamba {
  readonly kind: 'mamba';
  /** Whose state it is, counted among such layers. */
  readonly layer: number;
  /** Inputs of each row, side by side: gate, `[heads, dim]`; x, `[heads, dim]`; b and c, `[groups, state]`; dt, `[heads]`. */
  readonly of: Linear;
  /** Head i takes b and c of group ⌊i · groups / heads⌋. */
  readonly heads: number;
  readonly dim: number;
  readonly groups: number;
  /** Columns of a head's state. */
  readonly state: number;
  /** Rows that the convolution sees, a row's own included. */
  readonly taps: number;
  /** `[heads · dim + 2 · groups · state, taps]`, a row's own last, and the bias of each channel. */
  readonly convolution: VectorRef;
  readonly convolutionBias: VectorRef;
  /** `[heads]`, below zero. */
  readonly rate: VectorRef;
  /** `[heads]` */
  readonly bias: VectorRef;
  /** `[heads]` */
  readonly skip: VectorRef;
  /** `[groups, heads · dim / groups]`, of the norms; undefined: there are none. */
  readonly norm: VectorRef | undefined;
  readonly epsilon: number;
}

/** Channels of the convolution of a state-space layer. */
export const mambaChannels = ({ heads, dim, groups, state }: Mamba): number => heads * dim + 2 * groups * state;

/** Values with a state that stays from step to step. */
export type Recurrent = DeltaNet | ShortConv | Mamba;
export const isRecurrent = (value: Value): value is Recurrent =>
  value.kind === 'delta-net' || value.kind === 'short-conv' || value.kind === 'mamba';

/** Norms of q and k. */
export interface QkNorm {
  /**
   * head: an RMS norm of each head, with weights that all heads share. row: one RMS norm over all heads of q, and one over all of
   * k. own-head: a LayerNorm of each head, with weights of its own.
   */
  readonly over: 'head' | 'row' | 'own-head';
  /** `[head_dim]`; otherwise `[heads, head_dim]`. */
  readonly query: VectorRef;
  readonly key: VectorRef;
  readonly epsilon: number;
  /** RoPE that is applied before the norms; that of the attention then rotates nothing. */
  readonly after?: Rope | undefined;
}

/** Activation of an MLP without a gate: `[rows, ffn]`. */
export interface Activated {
  readonly kind: 'activated';
  /**
   * relu-squared: max(of, 0)²; So et al. (2021). gelu: in its form with tanh; Hendrycks & Gimpel (2016). none: the product of two
   * matrices; LAuReL, Menghani, Kumar & Kumar (2024).
   */
  readonly activation: 'relu-squared' | 'gelu' | 'tanh' | 'none' | Xielu;
  readonly of: Linear;
}

/** activation(gate) · up: `[rows, ffn]`; Shazeer (2020). */
export interface Gated {
  readonly kind: 'gated';
  /** gelu: in its form with tanh. */
  readonly activation: 'silu' | 'gelu';
  /**
   * Gates are max(gate - cutoff, 0), so many standard deviations of a row's gates above their mean; You et al. (2025). Absent: as
   * they are. Only with gelu.
   */
  readonly deviations?: number | undefined;
  /** Gate and up of each row: `[rows, 2, ffn]`. */
  readonly of: Linear;
}

/**
 * gelu(gate) · a layer's inputs: `[rows, width]`. What the inputs are says {@link LayerInputs}.
 */
export interface LayerGated {
  readonly kind: 'layer-gated';
  /** Whose inputs they are. */
  readonly layer: number;
  readonly of: Linear;
}

/**
 * The residual stream is multiplied by a number, or a vector's one element. It changes the stream instead of adding to it, so it
 * may only be an entry of {@link ModelGraph.residualBranches}, not the input of another value.
 */
export interface Rescaled {
  readonly kind: 'rescaled';
  readonly factor: VectorRef | number;
  readonly of: Residual;
}

/**
 * All streams of {@link AltUp} change, by shares that are products of coefficients with tanh(scale · scores). As
 * {@link Rescaled}, it is never the input of another value.
 */
export interface MixedStreams {
  readonly kind: 'mixed-streams';
  /**
   * predicted: stream i += sum_j share[i][j] · stream j. corrected: stream i += (1 + share[i]) · (x - predicted x), where the
   * prediction of the residual stream takes its place first.
   */
  readonly step: 'predicted' | 'corrected';
  /** Scores of the residual stream: `[rows, streams]`. */
  readonly of: Linear;
  readonly scale: number;
  /** `[streams * streams, streams]`, of a correction `[streams, streams]`. */
  readonly coefficients: VectorRef;
  /** `[hidden]`: factor of the {@link CorrectedStream}. */
  readonly weight?: VectorRef | undefined;
}

/** The value is added to the streams beside the residual stream. As {@link Rescaled}, it is never the input of another value. */
export interface OtherStreams {
  readonly kind: 'other-streams';
  readonly of: Value;
}

/** The residual stream after the latest correction, times its weight. */
export interface CorrectedStream {
  readonly kind: 'corrected-stream';
  readonly of: Residual;
}

/** The residual stream is replaced by its norm. As {@link Rescaled}, it is never the input of another value. */
export interface Renormed {
  readonly kind: 'renormed';
  readonly of: Norm;
}

/** factor · of */
export interface Scaled {
  readonly kind: 'scaled';
  readonly factor: number;
  readonly of: Value;
}

/** Values of one and the same residual stream: a block whose attention and MLP are parallel; Wang & Komatsuzaki (2021). */
export interface Sum {
  readonly kind: 'sum';
  readonly of: readonly [Value, Value];
}

/**
 * The sum, over the experts that a row is sent to, of their weights times their gated MLPs, in the order of their ids;
 * Shazeer et al. (2017), with the forms that models give it: {@link Router}.
 */
export interface Experts {
  readonly kind: 'experts';
  readonly router: Router;
  /** Width of an expert. */
  readonly ffn: number;
  /** Each expert's `[ffn, hidden]`, `[ffn, hidden]` and `[hidden, ffn]`. */
  readonly gate?: MatrixRef | undefined;
  readonly up?: MatrixRef | undefined;
  /** In place of gate and up: each expert's `[2 · ffn, hidden]`, its gate's rows before its up's. */
  readonly gateUp?: MatrixRef | undefined;
  readonly down: MatrixRef;
  /** Biases of each expert, `[experts, rows of its matrix]`; all of them or none. */
  readonly biases?: { readonly gate: VectorRef; readonly up: VectorRef; readonly down: VectorRef } | undefined;
  /**
   * clamped: gate / (1 + e^(-1.702 gate)) · (up + 1), the gate at most 7 and up from -7 to 7; gpt-oss's. relu-squared: max(up, 0)²,
   * without a gate.
   */
  readonly activation: Gated['activation'] | 'clamped' | 'relu-squared';
  /** Factor of each expert's output, `[experts]`. */
  readonly outputScales?: VectorRef | undefined;
  readonly of: Residual | Value;
}

/** Columns of what the experts' first matrices give for a row: gate and up, or up alone. */
export const gateUpColumns = ({ activation, ffn }: Experts): number => (activation === 'relu-squared' ? ffn : 2 * ffn);

/** Groups of consecutive experts, of which a row is sent to the best: those whose two best experts have the highest sum. */
export interface ExpertGroups {
  readonly count: number;
  readonly used: number;
}

/** Which experts a row is sent to, and their weights. */
export interface Router {
  /** Input of the scores, if it is another one than that of the experts. */
  readonly of?: Residual | Value | undefined;
  /** Factor of the scores. */
  readonly scoreScale?: number | undefined;
  /** `[experts, hidden]` f32; a row's scores are its products with it. */
  readonly weight: MatrixRef;
  /** Added to the scores, `[experts]`. */
  readonly bias?: VectorRef | undefined;
  /** Experts of a row: those of the highest weight. */
  readonly used: number;
  /** Only experts of the best groups are chosen: {@link ExpertGroups}. */
  readonly groups?: ExpertGroups | undefined;
  /** A weight is a part of the softmax over all scores, a score's sigmoid, or a part of the softmax over the chosen. */
  readonly scoring: 'softmax' | 'sigmoid' | 'chosen';
  /** Added to the weights for the choice alone. */
  readonly choiceBias?: VectorRef | undefined;
  /** Weights are divided by their sum. */
  readonly isNormalized: boolean;
  /** Final factor of the weights. */
  readonly scale: number;
}

/** of, each row times the sigmoid of its product with a vector. */
export interface RowGated {
  readonly kind: 'row-gated';
  /** `[hidden]` */
  readonly gate: VectorRef;
  /** Value that the gate is multiplied with. */
  readonly by: Residual | Value;
  readonly of: Value;
}

/** The sum of what all devices of a tensor split compute, each of some columns of the product, in the order of their ranks. */
export interface RankSum {
  readonly kind: 'rank-sum';
  readonly of: Linear;
}

/**
 * Inputs of each layer, beside the residual stream, `[rows, layers, width]`:
 * scale · (norm(projectionScale · projection of the scaled embedding) + tableScale · table[token]), the norm over each layer's
 * width; Gemma 3n's per-layer embeddings.
 */
export interface LayerInputs {
  readonly layers: number;
  readonly width: number;
  /** `[vocabulary, layers * width]` */
  readonly table: MatrixRef;
  readonly tableScale: number;
  /** `[layers * width, hidden]`, of the residual stream before the first layer. */
  readonly projection: Linear;
  readonly projectionScale: number;
  /** `[width]` */
  readonly norm: VectorRef;
  readonly epsilon: number;
  readonly scale: number;
}

/**
 * Streams beside the residual stream, of which layers compute one alone; Baykal et al. (2023), in the form of Gemma 3n. Each begins
 * as a product with the embedding, of the embedding's length. At the end the mean of the residual stream and of products with the
 * others, each of the residual stream's length, takes its place.
 */
export interface AltUp {
  /** Matrices `[hidden, hidden]` of the other streams behind each other. */
  readonly entry: Linear;
  readonly exit: Linear;
}

/** A whole model, from token ids to logits. */
export interface ModelGraph {
  /** Each token's first residual stream: `[vocabulary, hidden]`. */
  readonly embedding: MatrixRef;
  /** Factor of its rows. */
  readonly embeddingScale?: number | undefined;
  /** Added to each row by its position: `[context, hidden]`. Absent: nothing is. */
  readonly positions?: MatrixRef | undefined;
  /** Embeddings of kinds of segments, `[kinds, hidden]`, of which the first is added to every row. Absent: nothing is. */
  readonly segments?: VectorRef | undefined;
  /** Absent: layers have no inputs but the residual stream. */
  readonly layerInputs?: LayerInputs | undefined;
  /** Absent: there is the residual stream alone. */
  readonly altup?: AltUp | undefined;
  /** Values added to the residual stream, in order: for most families attention and FFN of each layer in turn. */
  readonly residualBranches: readonly Value[];
  /** Logits of the wanted rows: `[rows, vocabulary]`. Absent: the model is an encoder. */
  readonly logits?: Linear | undefined;
  /**
   * Hidden states that an encoder returns, as wide as the residual stream; products are of a norm, or of a product of one. Of other
   * models they are what the logits are computed from.
   */
  readonly states?: Residual | Norm | Linear | undefined;
  /** Scores of a pooled hidden state, which takes the residual stream's place in it: `[rows, labels]`. Absent: the file has no such head. */
  readonly head?: Norm | Linear | Activated | undefined;
  /** Factor of the logits, and then their cap: softcap · tanh(logit / softcap). */
  readonly logitsScale?: number | undefined;
  readonly logitsSoftcap?: number | undefined;
  /** Block that drafts tokens: multi-token prediction. Absent: the file has none, or it is not loaded. */
  readonly prediction?: PredictionGraph | undefined;
}

/**
 * A block behind a model that predicts the token after the next; DeepSeek-AI (2024), "DeepSeek-V3 technical report", section 2.2.
 * Applied to its own hidden state and prediction, it predicts further ones.
 */
export interface PredictionGraph extends Pick<ModelGraph, 'embedding' | 'residualBranches'> {
  readonly logits: Linear;
  readonly entry: PredictionEntry;
}

/** Residual stream before a prediction block: projection · [norm(embedding of the next token), norm(hidden state)]. */
export interface PredictionEntry {
  /** `[hidden]` */
  readonly tokenNorm: VectorRef;
  /** `[hidden]`, of the hidden state after the output norm. */
  readonly hiddenNorm: VectorRef;
  readonly epsilon: number;
  /** `[hidden, 2 * hidden]`. What it is computed from is not a value. */
  readonly projection: Linear;
}

/**
 * A part of a model that follows on another, or that another follows on: without an embedding, or without logits. Or what one
 * device has of a tensor split: all layers, and of their matrices parts.
 */
export type StageGraph = Omit<ModelGraph, 'embedding'> &
  Partial<Pick<ModelGraph, 'embedding'>> & { readonly isShard?: true; readonly entry?: PredictionEntry };

/** A model that generates: with logits. */
export type DecoderGraph = ModelGraph & { readonly logits: Linear };

/** Width of a value's rows. */
export function columnsOf(value: Residual | Value, hidden: number): number {
  switch (value.kind) {
    case 'residual':
    case 'mixed-streams':
    case 'corrected-stream':
      return hidden;
    case 'norm':
    case 'scaled':
    case 'row-gated':
    case 'rank-sum':
    case 'layer-gated':
    case 'rescaled':
    case 'other-streams':
    case 'renormed':
      return columnsOf(value.of, hidden);
    case 'experts':
      return value.down.rows;
    case 'sum':
      return columnsOf(value.of[0], hidden);
    case 'linear':
      return value.weights.reduce((sum, { rows }) => sum + rows, 0);
    case 'attention':
      return value.heads * value.headDim;
    case 'latent-attention':
      return value.heads * value.valueDim;
    case 'delta-net':
      return value.valueHeads * value.dim;
    case 'short-conv':
      return value.columns;
    case 'mamba':
      return value.heads * value.dim;
    case 'gated':
      return columnsOf(value.of, hidden) / 2;
    case 'activated':
      return columnsOf(value.of, hidden);
  }
}

/** The matrices of all experts, in the order in which they are multiplied. */
export const expertMatrices = ({ gate, up, gateUp, down }: Experts): readonly MatrixRef[] =>
  [gate, up, gateUp, down].filter((matrix) => matrix !== undefined);

/** A value and all that it is computed from, innermost first. */
export function* withInputs(value: Residual | Value): Generator<Value> {
  if (value.kind === 'residual') return;
  if (value.kind === 'row-gated') yield* withInputs(value.by);
  if (value.kind === 'experts' && value.router.of !== undefined) yield* withInputs(value.router.of);
  if (value.kind === 'sum') for (const part of value.of) yield* withInputs(part);
  else if (value.kind === 'latent-attention') {
    yield* withInputs(value.compressed);
    yield* withInputs(value.query);
  } else yield* withInputs(value.kind === 'attention' ? value.qkv : value.of);
  yield value;
}

/** Every value of a model or of a stage of it, in the order in which they are computed; those of its prediction block at the end. */
export function* valuesOf({
  entry,
  layerInputs,
  altup,
  residualBranches,
  logits,
  states,
  head,
  prediction,
}: StageGraph): Generator<Value> {
  const first = [entry?.projection, layerInputs?.projection, altup?.entry].filter((value) => value !== undefined);
  const last = [altup?.exit, logits, states, head].filter((value) => value !== undefined);
  for (const value of [...first, ...residualBranches, ...last]) yield* withInputs(value);
  if (prediction !== undefined) yield* valuesOf(prediction);
}

/** Columns of q, k and v side by side. */
export const qkvColumnsOf = ({ heads, kvHeads, headDim }: Attention): number => (heads + 2 * kvHeads) * headDim;

/** Heads of keys and values of a layer. */
export interface HeadShape extends Pick<Attention, 'kvHeads' | 'headDim'> {
  /** Values are a part of the keys. */
  readonly hasKeysAlone?: true;
}

/** Layers of a model, or of a part of it, that have keys and values, by the numbers that its attentions have for them. */
export function kvLayers(graph: StageGraph): ReadonlyMap<number, HeadShape> {
  const shapes = new Map<number, HeadShape>();
  for (const value of valuesOf(graph)) {
    if (value.kind === 'latent-attention')
      shapes.set(value.layer, { kvHeads: 1, headDim: latentKeyDim(value), hasKeysAlone: true });
    if (value.kind !== 'attention' || value.sight !== undefined) continue;
    const { kvHeads, headDim } = value;
    shapes.set(value.layer, { kvHeads, headDim });
  }
  return shapes;
}
