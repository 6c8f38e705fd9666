import { type BuilderValue, typed } from './gguf-builder.js';

/** Differences of a family's random model from llama's. Names of keys are without the architecture's prefix. */
export interface RandomFamily {
  /** Reference of its log probabilities, where llama.cpp does not have the family; default: llama.cpp's answers. */
  readonly reference?: 'float64';
  /** `general.architecture`; default: the name up to a hyphen. */
  readonly architecture?: string;
  readonly metadata?: Readonly<Record<string, BuilderValue | undefined>>;
  /** Keys that have no architecture before them. */
  readonly fileMetadata?: Readonly<Record<string, BuilderValue>>;
  /** Query heads, key heads and the size of a head. Default: four and two of 16. */
  readonly heads?: readonly [heads: number, kvHeads: number, headDim: number];
  /** Width of the residual stream. Default: 64. */
  readonly hidden?: number;
  /** q, k and v in one matrix, or gate and up. */
  readonly joined?: readonly ('qkv' | 'gate_up')[];
  /** Matrices and norms that have a bias. */
  readonly biases?: readonly string[];
  readonly qkNorm?: 'head' | 'row' | 'own-head';
  /** Norms of a block, as wide as the residual stream. Default: attn_norm, ffn_norm. */
  readonly norms?: readonly string[];
  readonly isTied?: boolean;
  /** The output matrix is the embedding, and the file has it alone. */
  readonly hasOutputAlone?: true;
  /** Each head has a sink. */
  readonly hasSinks?: true;
  /** Blocks of experts. */
  readonly experts?: RandomExperts;
  /** Gated delta nets in place of attention in three of four blocks, and gates of the attention's heads. */
  readonly nets?: {
    readonly keyHeads: number;
    readonly valueHeads: number;
    readonly dim: number;
    readonly isGrouped?: true;
  };
  /** State-space layers in place of attention where there are no key heads, or beside attention in every block. */
  readonly mamba?: {
    readonly heads: number;
    readonly dim: number;
    readonly state: number;
    readonly groups: number;
    readonly isBeside?: true;
    readonly hasNoNorm?: true;
  };
  /** MLPs and experts have no gate. */
  readonly hasNoGate?: true;
  /** Each layer is one thing alone: a state-space layer, attention, or an MLP without a gate. */
  readonly isApart?: true;
  /**
   * Kinds of recurrent models' layers, over and over: `*` attention, `-` an FFN alone, `M` a state-space layer or a convolution. Default:
   * `M-*` or `MM*`.
   */
  readonly pattern?: string;
  /** Latent attention in place of attention. */
  readonly latents?: {
    readonly queryRank?: number;
    readonly rank: number;
    readonly plain: number;
    readonly rotated: number;
    readonly valueDim: number;
  };
  /** Short convolutions in place of attention in two of three blocks. */
  readonly convolutions?: { readonly taps: number };
  /** Default: as many as there are kinds of layers, and one more. */
  readonly layers?: number;
  /** Layers that differ in their heads and FFNs. */
  readonly layerShape?: (layer: number) => RandomLayer;
  /** Width of the inputs that each layer gets beside the residual stream. */
  readonly layerInputs?: number;
  /** Streams beside the residual stream, and matrices of low rank beside attention. */
  readonly hasAltup?: true;
  /** Each layer ends with a factor of the residual stream. */
  readonly hasOutputScales?: true;
  /** Mean of a block's norms, by name; default 1. */
  readonly means?: Readonly<Record<string, number>>;
  /** Vectors of the file: their elements' mean, or all of them. */
  readonly vectors?: Readonly<
    Record<string, { readonly length: number; readonly mean: number; readonly values?: readonly number[] }>
  >;
  /** Factors of the weights' standard deviation, by the matrix's name. */
  readonly scaled?: Readonly<Record<string, number>>;
}

export interface RandomLayer {
  readonly kvHeads: number;
  readonly headDim: number;
  readonly ffn: number;
  /** It attends to keys and values of an earlier layer. */
  readonly isShared?: boolean;
  /** Its keys are its values too. */
  readonly hasNoValues?: boolean;
}

/** Widths are multiples of a dense block's. */
export interface RandomExperts {
  readonly count: number;
  readonly used: number;
  /** Width of an expert; of the one that every row is sent to. */
  readonly ffn: number;
  readonly sharedFfn?: number;
  /** Leading blocks without experts. */
  readonly dense?: number;
  /** The shared expert has a gate. */
  readonly isGated?: true;
  /** Routers and experts have biases. */
  readonly isBiased?: true;
  /** Beside them there is a dense MLP; norms, inputs and factors of both are their own. */
  readonly isBeside?: true;
  /** The choice has a bias. */
  readonly hasChoiceBias?: true;
}

/** Scores far apart: no rounding decides who is chosen. */
export const ROUTED = { ffn_gate_inp: 5 };

export const POST_NORMS = ['attn_norm', 'post_attention_norm', 'ffn_norm', 'post_ffw_norm'] as const;

export const QKV = ['attn_q', 'attn_k', 'attn_v'] as const;

export const MLP = ['ffn_gate', 'ffn_up', 'ffn_down'] as const;

/** Reads of nets' states are normalized, and their rounding with them. */
export const NETTED = { ssm_out: 0.4 };

/** Keys of lfm2. */
export const CONVOLVED = {
  // As many as its keys list.
  layers: 4,
  convolutions: { taps: 3 },
  qkNorm: 'head',
  isTied: true,
  metadata: { 'attention.head_count_kv': typed.arrayOf(typed.i32, [0, 0, 2, 0]), 'shortconv.l_cache': 3 },
} as const;

/** Keys of qwen35: a quarter of each head is rotated, by one number of three that are the same. */
export const HYBRID = {
  heads: [4, 2, 32],
  qkNorm: 'head',
  norms: ['attn_norm', 'post_attention_norm'],
  metadata: {
    'rope.dimension_count': 16,
    'rope.dimension_sections': typed.arrayOf(typed.i32, [3, 3, 2, 0]),
  },
} as const;
