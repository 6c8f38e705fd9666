import type { ArchitectureName } from '../../lib/gguf/architectures.js';

/** Keys of a family's files that llama's lack. */
interface FamilyParts {
  /** Keys without the architecture's prefix. */
  readonly keys?: Readonly<Record<string, number | readonly number[]>>;
  /** Matrices of a block that have a bias. */
  readonly biases?: readonly string[];
  /** q, k and v in one matrix, gate and up. */
  readonly joined?: readonly ('qkv' | 'gate_up')[];
  /** Norms of q and k: of each head, or over the row. */
  readonly qkNorm?: 'head' | 'row';
  /** Norms of a block. Default: attn_norm, ffn_norm. */
  readonly norms?: readonly string[];
  /** Each head has a sink, and routers and experts have biases. */
  readonly hasSinks?: true;
}

/** Parameters that decide the tensors of a model. */
export interface ModelShape {
  readonly architecture: ArchitectureName;
  readonly parts?: FamilyParts;
  readonly layers: number;
  readonly hidden: number;
  readonly ffn: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly vocabulary: number;
  readonly context: number;
  readonly ropeBase: number;
  /** Experts of each block; absent: it has a gated MLP. */
  readonly experts?: {
    readonly count: number;
    readonly used: number;
    /** Width of an expert. */
    readonly ffn: number;
  };
  /** Gated delta nets in all blocks but every fourth, whose heads are gated. */
  readonly nets?: {
    readonly keyHeads: number;
    readonly valueHeads: number;
    readonly dim: number;
  };
  /** A block behind the layers predicts further tokens. */
  readonly predicts?: true;
  /** The embedding is the output projection too. */
  readonly tied: boolean;
  /** Pre-tokenizer as llama.cpp names it. */
  readonly preTokenizer: 'llama-bpe' | 'qwen2' | 'qwen35';
  /** Llama 3.1's divisors of RoPE's frequencies. */
  readonly ropeFactors?: {
    readonly factor: number;
    readonly low: number;
    readonly high: number;
    readonly original: number;
  };
}

const llama3 = {
  architecture: 'llama',
  vocabulary: 128_256,
  context: 131_072,
  ropeBase: 500_000,
  preTokenizer: 'llama-bpe',
} as const;
const qwen2 = {
  architecture: 'qwen2',
  parts: { biases: ['attn_q', 'attn_k', 'attn_v'] },
  context: 32_768,
  ropeBase: 1_000_000,
  preTokenizer: 'qwen2',
} as const;
const qwen3 = { ...qwen2, architecture: 'qwen3', context: 40_960, parts: { qkNorm: 'head' } } as const;
const QWEN3_SMALL: ModelShape = {
  ...qwen3,
  ...{ layers: 28, hidden: 1024, ffn: 3072, heads: 16, kvHeads: 8, headDim: 128, vocabulary: 151_936, tied: true },
};
const POST_NORMS = ['attn_norm', 'post_attention_norm', 'ffn_norm', 'post_ffw_norm'] as const;
const gemma = { ropeBase: 10_000, preTokenizer: 'llama-bpe', tied: true, headDim: 256 } as const;
const scaled = (factor: number) => ({ factor, low: 1, high: 4, original: 8192 });
const tiny = { layers: 2, hidden: 256, ffn: 768, heads: 4, kvHeads: 2, headDim: 64, vocabulary: 1024, context: 2048 };

const a3b = { hidden: 2048, heads: 32, kvHeads: 4, headDim: 128, vocabulary: 151_936, tied: false } as const;
const qwen3moe = (layers: number): ModelShape => ({
  ...{ ...qwen3, ...a3b, layers },
  ...{ architecture: 'qwen3moe', ffn: 6144, experts: { count: 128, used: 8, ffn: 768 } },
});

const qwen35 = {
  architecture: 'qwen35',
  headDim: 256,
  vocabulary: 248_320,
  context: 262_144,
  ropeBase: 10_000_000,
  preTokenizer: 'qwen35',
  parts: {
    qkNorm: 'head',
    norms: ['attn_norm', 'post_attention_norm'],
    keys: { 'rope.dimension_count': 64, 'rope.dimension_sections': [11, 11, 10, 0] },
  },
} as const;

const QWEN35_SMALL: ModelShape = {
  ...{ ...qwen35, layers: 24, hidden: 1024, ffn: 3584, heads: 8, kvHeads: 2, tied: true },
  nets: { keyHeads: 16, valueHeads: 16, dim: 128 },
};
const QWEN35_LARGE: ModelShape = {
  ...{ ...qwen35, layers: 64, hidden: 5120, ffn: 17_408, heads: 24, kvHeads: 4, tied: false },
  nets: { keyHeads: 16, valueHeads: 48, dim: 128 },
};

/** @param experts in each layer */
function gptOss(layers: number, experts: number): ModelShape {
  return {
    ...{ architecture: 'gpt-oss', context: 131_072, vocabulary: 201_088, ropeBase: 150_000, preTokenizer: 'llama-bpe' },
    ...{ layers, hidden: 2880, ffn: 2880, heads: 64, kvHeads: 8, headDim: 64, tied: false },
    experts: { count: experts, used: 4, ffn: 2880 },
    parts: {
      norms: ['attn_norm', 'post_attention_norm'],
      biases: ['attn_q', 'attn_k', 'attn_v', 'attn_output'],
      hasSinks: true,
      keys: { 'attention.sliding_window': 128, expert_feed_forward_length: 2880 },
    },
  };
}

/** Published models' shapes, from their config.json, and two small ones for tests. */
export const SHAPES: Readonly<Record<string, ModelShape>> = {
  'llama-3.1-8b': {
    ...llama3,
    ...{ layers: 32, hidden: 4096, ffn: 14_336, heads: 32, kvHeads: 8, headDim: 128, tied: false },
    ropeFactors: scaled(8),
  },
  'llama-3.1-70b': {
    ...llama3,
    ...{ layers: 80, hidden: 8192, ffn: 28_672, heads: 64, kvHeads: 8, headDim: 128, tied: false },
    ropeFactors: scaled(8),
  },
  'llama-3.2-1b': {
    ...llama3,
    ...{ layers: 16, hidden: 2048, ffn: 8192, heads: 32, kvHeads: 8, headDim: 64, tied: true },
    ropeFactors: scaled(32),
  },
  'llama-3.2-3b': {
    ...llama3,
    ...{ layers: 28, hidden: 3072, ffn: 8192, heads: 24, kvHeads: 8, headDim: 128, tied: true },
    ropeFactors: scaled(32),
  },
  'qwen2.5-0.5b': {
    ...qwen2,
    ...{ layers: 24, hidden: 896, ffn: 4864, heads: 14, kvHeads: 2, headDim: 64, vocabulary: 151_936, tied: true },
  },
  'qwen2.5-1.5b': {
    ...qwen2,
    ...{ layers: 28, hidden: 1536, ffn: 8960, heads: 12, kvHeads: 2, headDim: 128, vocabulary: 151_936, tied: true },
  },
  'qwen2.5-7b': {
    ...qwen2,
    ...{ layers: 28, hidden: 3584, ffn: 18_944, heads: 28, kvHeads: 4, headDim: 128, vocabulary: 152_064, tied: false },
  },
  'qwen3-0.6b': QWEN3_SMALL,
  'qwen3-embedding-0.6b': {
    ...{ ...QWEN3_SMALL, context: 32_768, vocabulary: 151_669 },
    // Pooling by the last token.
    parts: { ...QWEN3_SMALL.parts, keys: { pooling_type: 3 } },
  },
  'qwen3-8b': {
    ...qwen3,
    ...{ layers: 36, hidden: 4096, ffn: 12_288, heads: 32, kvHeads: 8, headDim: 128, vocabulary: 151_936, tied: false },
  },
  'qwen3-30b-a3b': qwen3moe(48),
  'qwen3-30b-a3b-4-layers': qwen3moe(4),
  // As dense as the others are sparse: what a token of theirs reads.
  'qwen3-30b-a3b-dense': { ...qwen3, ...a3b, layers: 48, ffn: 8 * 768 },
  'qwen3-30b-a3b-4-layers-dense': { ...qwen3, ...a3b, layers: 4, ffn: 8 * 768 },
  'mixtral-8x7b': {
    ...{ ...llama3, vocabulary: 32_000, context: 32_768, ropeBase: 1_000_000 },
    ...{ layers: 32, hidden: 4096, ffn: 14_336, heads: 32, kvHeads: 8, headDim: 128, tied: false },
    experts: { count: 8, used: 2, ffn: 14_336 },
  },
  'qwen3.5-0.8b': QWEN35_SMALL,
  'qwen3.5-27b': QWEN35_LARGE,
  // With the block that predicts further tokens.
  'qwen3.5-0.8b-mtp': { ...QWEN35_SMALL, predicts: true },
  'qwen3.5-27b-mtp': { ...QWEN35_LARGE, predicts: true },
  'gemma-2b': {
    ...gemma,
    ...{ architecture: 'gemma', context: 8192, vocabulary: 256_000 },
    ...{ layers: 18, hidden: 2048, ffn: 16_384, heads: 8, kvHeads: 1 },
  },
  'gemma-2-2b': {
    ...gemma,
    ...{ architecture: 'gemma2', context: 8192, vocabulary: 256_000 },
    ...{ layers: 26, hidden: 2304, ffn: 9216, heads: 8, kvHeads: 4 },
    parts: {
      norms: POST_NORMS,
      keys: { attn_logit_softcapping: 50, final_logit_softcapping: 30, 'attention.sliding_window': 4096 },
    },
  },
  'gemma-3-1b': {
    ...gemma,
    ...{ architecture: 'gemma3', context: 32_768, vocabulary: 262_144, ropeBase: 1_000_000 },
    ...{ layers: 26, hidden: 1152, ffn: 6912, heads: 4, kvHeads: 1 },
    parts: { norms: POST_NORMS, qkNorm: 'head', keys: { 'attention.sliding_window': 512 } },
  },
  // Without the linear RoPE scaling of its global layers.
  'gemma-3-4b': {
    ...gemma,
    ...{ architecture: 'gemma3', context: 131_072, vocabulary: 262_208, ropeBase: 1_000_000 },
    ...{ layers: 34, hidden: 2560, ffn: 10_240, heads: 8, kvHeads: 4 },
    parts: { norms: POST_NORMS, qkNorm: 'head', keys: { 'attention.sliding_window': 1024 } },
  },
  'phi-3-mini-4k': {
    ...{ architecture: 'phi3', context: 4096, vocabulary: 32_064, ropeBase: 10_000, preTokenizer: 'llama-bpe' },
    ...{ layers: 32, hidden: 3072, ffn: 8192, heads: 32, kvHeads: 32, headDim: 96, tied: false },
    parts: { joined: ['qkv', 'gate_up'], keys: { 'attention.sliding_window': 2047 } },
  },
  // Without longrope's factors.
  'phi-4-mini': {
    ...{ architecture: 'phi3', context: 131_072, vocabulary: 200_064, ropeBase: 10_000, preTokenizer: 'llama-bpe' },
    ...{ layers: 32, hidden: 3072, ffn: 8192, heads: 24, kvHeads: 8, headDim: 128, tied: true },
    parts: { joined: ['qkv', 'gate_up'], keys: { 'rope.dimension_count': 96 } },
  },
  // Without yarn.
  'gpt-oss-20b': gptOss(24, 32),
  'gpt-oss-120b': gptOss(36, 128),
  'glm-4-9b-0414': {
    ...{ architecture: 'glm4', context: 32_768, vocabulary: 151_552, ropeBase: 10_000, preTokenizer: 'llama-bpe' },
    ...{ layers: 40, hidden: 4096, ffn: 13_696, heads: 32, kvHeads: 2, headDim: 128, tied: false },
    parts: {
      norms: POST_NORMS,
      joined: ['gate_up'],
      biases: ['attn_q', 'attn_k', 'attn_v'],
      keys: { 'rope.dimension_count': 64 },
    },
  },
  'olmo-2-7b': {
    ...{ architecture: 'olmo2', context: 4096, vocabulary: 100_352, ropeBase: 500_000, preTokenizer: 'llama-bpe' },
    ...{ layers: 32, hidden: 4096, ffn: 11_008, heads: 32, kvHeads: 32, headDim: 128, tied: false },
    parts: { norms: ['post_attention_norm', 'post_ffw_norm'], qkNorm: 'row' },
  },
  'smollm3-3b': {
    ...{
      architecture: 'smollm3',
      context: 65_536,
      vocabulary: 128_256,
      ropeBase: 5_000_000,
      preTokenizer: 'llama-bpe',
    },
    ...{ layers: 36, hidden: 2048, ffn: 11_008, heads: 16, kvHeads: 4, headDim: 128, tied: true },
  },
  tiny: { ...llama3, ...tiny, tied: false },
  'tiny-qwen2': { ...qwen2, ...tiny, tied: true },
};
