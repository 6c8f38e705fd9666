/** What decides the tensors of a model. */
export interface ModelShape {
  readonly architecture: 'llama' | 'qwen2';
  readonly layers: number;
  readonly hidden: number;
  readonly ffn: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly vocabulary: number;
  readonly context: number;
  readonly ropeBase: number;
  /** The embedding is the output projection too. */
  readonly tied: boolean;
  /** Pre-tokenizer as llama.cpp names it. */
  readonly preTokenizer: 'llama-bpe' | 'qwen2';
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
  context: 32_768,
  ropeBase: 1_000_000,
  preTokenizer: 'qwen2',
} as const;
const scaled = (factor: number) => ({ factor, low: 1, high: 4, original: 8192 });
const tiny = { layers: 2, hidden: 256, ffn: 768, heads: 4, kvHeads: 2, headDim: 64, vocabulary: 1024, context: 2048 };

/** Published models' shapes, from their config.json, and two small ones for tests. */
export const SHAPES: Readonly<Record<string, ModelShape>> = {
  'llama-3.1-8b': {
    ...llama3,
    ...{ layers: 32, hidden: 4096, ffn: 14_336, heads: 32, kvHeads: 8, headDim: 128, tied: false },
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
  tiny: { ...llama3, ...tiny, tied: false },
  'tiny-qwen2': { ...qwen2, ...tiny, tied: true },
};
