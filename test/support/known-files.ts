import { syntheticVocabulary } from '../../src/cli/synth/vocabulary.js';
import type { TensorTypeName } from '../../src/lib/gguf/tensor-types.js';
import { type BuilderValue, type GgufBuilder, typed } from './gguf-builder.js';
import { encoderOf, isEncoder, KNOWN_ENCODERS } from './known-encoders.js';
import type { RandomHead } from './random-encoders.js';
import { RANDOM_FAMILIES, type RandomFamilyName } from './random-families.js';
import type { RandomFamily } from './random-family.js';
import { randomModel } from './random-model.js';

/** Facts that decide about a published file before a weight of it is read, and the result. */
export interface KnownFile {
  readonly name: string;
  /** `general.architecture` */
  readonly architecture: string;
  /** `tokenizer.ggml.pre` with byte-level BPE; absent: SentencePiece, or WordPiece or Unigram of encoders. */
  readonly preTokenizer?: string;
  /** True if an encoder's tokenizer is Unigram. */
  readonly isUnigram?: true;
  /** An encoder's head that makes scores. */
  readonly head?: RandomHead;
  /** Types of its matrices. */
  readonly types: readonly TensorTypeName[];
  /** Elements of a head. */
  readonly headDim: number;
  /** The random family that has its tensors; default: the one of its architecture. */
  readonly family?: RandomFamilyName;
  /** Keys that it has and the random family has not, without the architecture's prefix. */
  readonly keys?: Readonly<Record<string, BuilderValue>>;
  /** Tensors that it has and the random family has not. */
  readonly tensors?: Readonly<Record<string, readonly number[]>>;
  /** Why it is refused: a part of what is said. Absent: it loads. */
  readonly refused?: string;
}

const Q4_K_M = ['Q4_K', 'Q6_K'] as const;
const Q5_K_M = ['Q5_K', 'Q6_K'] as const;
const LLAMA_31 = { 'rope_freqs.weight': [8] } as const;
const YARN = (factor: number, original: number) => ({
  'rope.scaling.type': 'yarn',
  'rope.scaling.factor': typed.f32(factor),
  'rope.scaling.original_context_length': original,
});
const otherArchitecture = (architecture: string) => ({
  architecture,
  refused: `architecture ${architecture} is not supported`,
});
const dense = { types: Q4_K_M, headDim: 128 } as const;

/**
 * Well-known files: their architecture, pre-tokenizer and types as converters write them. Each is a header here, of a random
 * model with the tensors of its family; the files themselves were not had.
 */
export const KNOWN_FILES: readonly KnownFile[] = [
  {
    name: 'Llama-3.1-8B-Instruct Q4_K_M',
    architecture: 'llama',
    preTokenizer: 'llama-bpe',
    tensors: LLAMA_31,
    ...dense,
  },
  {
    name: 'Llama-3.2-1B-Instruct Q8_0',
    architecture: 'llama',
    preTokenizer: 'llama-bpe',
    tensors: LLAMA_31,
    types: ['Q8_0'],
    headDim: 64,
  },
  {
    name: 'Llama-3.1-8B-Instruct IQ4_XS',
    architecture: 'llama',
    preTokenizer: 'llama-bpe',
    tensors: LLAMA_31,
    types: ['IQ4_XS', 'Q5_K', 'Q6_K'],
    headDim: 128,
  },
  {
    name: 'Llama-3.1-8B-Instruct IQ2_M',
    architecture: 'llama',
    preTokenizer: 'llama-bpe',
    tensors: LLAMA_31,
    types: ['IQ2_S', 'IQ3_S', 'Q5_K'],
    headDim: 128,
  },
  {
    name: 'Llama-3.1-8B-Instruct IQ1_M',
    architecture: 'llama',
    preTokenizer: 'llama-bpe',
    tensors: LLAMA_31,
    types: ['IQ1_M', 'IQ2_XXS', 'Q5_K'],
    headDim: 128,
  },
  {
    name: 'Llama-3.1-8B-Instruct MXFP4',
    architecture: 'llama',
    preTokenizer: 'llama-bpe',
    tensors: LLAMA_31,
    types: ['MXFP4', 'Q8_0'],
    headDim: 128,
  },
  { name: 'Llama-2-7B-Chat Q4_0', architecture: 'llama', types: ['Q4_0', 'Q6_K'], headDim: 128 },
  { name: 'Llama-4-Scout-17B-16E-Instruct Q4_K_M', ...otherArchitecture('llama4'), preTokenizer: 'llama4', ...dense },
  { name: 'Mistral-7B-Instruct-v0.3 Q4_K_M', architecture: 'llama', ...dense },
  { name: 'Mistral-Nemo-Instruct-2407 Q4_K_M', architecture: 'llama', preTokenizer: 'tekken', ...dense },
  { name: 'Mistral-Small-3.2-24B-Instruct Q4_K_M', architecture: 'llama', preTokenizer: 'tekken', ...dense },
  { name: 'Ministral-3-8B-Instruct Q4_K_M', architecture: 'mistral3', preTokenizer: 'tekken', ...dense },
  {
    name: 'Mixtral-8x7B-Instruct Q4_K_M',
    architecture: 'llama',
    family: 'llama-experts',
    ...dense,
  },
  { name: 'Qwen2.5-7B-Instruct Q4_K_M', architecture: 'qwen2', preTokenizer: 'qwen2', ...dense },
  {
    name: 'Qwen2.5-Coder-32B-Instruct Q5_K_M',
    architecture: 'qwen2',
    preTokenizer: 'qwen2',
    types: Q5_K_M,
    headDim: 128,
  },
  { name: 'Qwen2.5-VL-7B-Instruct Q4_K_M', architecture: 'qwen2vl', preTokenizer: 'qwen2', ...dense },
  { name: 'Qwen3-8B Q4_K_M', architecture: 'qwen3', preTokenizer: 'qwen2', ...dense },
  { name: 'Qwen3-30B-A3B Q4_K_M', architecture: 'qwen3moe', preTokenizer: 'qwen2', ...dense },
  { name: 'Qwen3.5-9B Q4_K_M', architecture: 'qwen35', preTokenizer: 'qwen35', types: Q4_K_M, headDim: 256 },
  { name: 'Qwen3.5-35B-A3B Q4_K_M', architecture: 'qwen35moe', preTokenizer: 'qwen35', types: Q4_K_M, headDim: 256 },
  { name: 'DeepSeek-R1-Distill-Qwen-7B Q4_K_M', architecture: 'qwen2', preTokenizer: 'deepseek-r1-qwen', ...dense },
  {
    name: 'DeepSeek-R1-Distill-Llama-8B Q4_K_M',
    architecture: 'llama',
    preTokenizer: 'llama-bpe',
    tensors: LLAMA_31,
    ...dense,
  },
  {
    name: 'DeepSeek-R1-0528-Qwen3-8B Q4_K_M',
    architecture: 'qwen3',
    preTokenizer: 'qwen2',
    keys: YARN(4, 128),
    ...dense,
  },
  {
    name: 'gpt-oss-20b MXFP4',
    architecture: 'gpt-oss',
    preTokenizer: 'gpt-4o',
    types: ['MXFP4', 'Q8_0'],
    headDim: 64,
  },
  { name: 'Gemma-2-9B-it Q4_K_M', architecture: 'gemma2', types: Q4_K_M, headDim: 256 },
  { name: 'Gemma-3-27B-it Q4_0', architecture: 'gemma3', types: ['F16', 'Q4_0'], headDim: 128 },
  { name: 'Gemma-3n-E4B-it Q4_K_M', architecture: 'gemma3n', types: Q4_K_M, headDim: 256 },
  {
    name: 'Phi-3.5-mini-instruct Q4_K_M',
    architecture: 'phi3',
    types: [...Q4_K_M, 'Q5_K'],
    headDim: 96,
    keys: { 'attention.sliding_window': 262_144 },
  },
  {
    name: 'Phi-4 Q4_K_M',
    architecture: 'phi3',
    preTokenizer: 'dbrx',
    types: [...Q4_K_M, 'Q5_K'],
    headDim: 128,
    keys: { 'attention.sliding_window': 0 },
  },
  {
    name: 'Phi-4-mini-instruct Q4_K_M',
    architecture: 'phi3',
    preTokenizer: 'gpt-4o',
    types: [...Q4_K_M, 'Q5_K'],
    headDim: 128,
  },
  { name: 'GLM-4-9B-0414 Q4_K_M', architecture: 'glm4', preTokenizer: 'glm4', ...dense },
  { name: 'GLM-4-9B-Chat Q4_K_M', architecture: 'chatglm', preTokenizer: 'chatglm-bpe', ...dense },
  { name: 'GLM-4.5-Air Q4_K_M', architecture: 'glm4moe', preTokenizer: 'glm4', ...dense },
  { name: 'Granite-3.3-8B-Instruct Q4_K_M', architecture: 'granite', preTokenizer: 'refact', ...dense },
  { name: 'OLMo-2-1124-13B-Instruct Q4_K_M', architecture: 'olmo2', preTokenizer: 'dbrx', ...dense },
  { name: 'SmolLM3-3B Q4_K_M', architecture: 'smollm3', preTokenizer: 'smaug-bpe', ...dense },
  { name: 'SmolLM2-1.7B-Instruct Q8_0', architecture: 'llama', preTokenizer: 'smollm', types: ['Q8_0'], headDim: 64 },
  { name: 'Falcon3-7B-Instruct Q4_K_M', architecture: 'llama', preTokenizer: 'falcon3', types: Q4_K_M, headDim: 256 },
  { name: 'Yi-1.5-9B-Chat Q4_K_M', architecture: 'llama', ...dense },
  { name: 'c4ai-command-r-v01 Q4_K_M', architecture: 'command-r', preTokenizer: 'command-r', ...dense },
  {
    name: 'c4ai-command-r-plus Q4_K_M',
    architecture: 'command-r',
    preTokenizer: 'command-r',
    family: 'command-r-plus',
    ...dense,
  },
  { name: 'c4ai-command-r7b-12-2024 Q4_K_M', architecture: 'cohere2', preTokenizer: 'command-r', ...dense },
  {
    name: 'StableLM-2-1.6B-Chat Q4_K_M',
    architecture: 'stablelm',
    preTokenizer: 'stablelm2',
    types: Q4_K_M,
    headDim: 64,
  },
  {
    name: 'StableLM-2-12B-Chat Q4_K_M',
    architecture: 'stablelm',
    preTokenizer: 'stablelm2',
    family: 'stablelm-parallel',
    types: Q4_K_M,
    headDim: 160,
  },
  { name: 'StarCoder2-7B Q4_K_M', architecture: 'starcoder2', preTokenizer: 'starcoder', ...dense },
  { name: 'Phi-2 Q4_K_M', architecture: 'phi2', preTokenizer: 'phi-2', types: Q4_K_M, headDim: 80 },
  {
    name: 'Falcon-7B-Instruct Q4_0',
    architecture: 'falcon',
    preTokenizer: 'falcon',
    types: ['Q4_0', 'Q8_0'],
    headDim: 64,
  },
  { name: 'Pythia-1.4B Q8_0', architecture: 'gptneox', preTokenizer: 'olmo', types: ['Q8_0'], headDim: 128 },
  {
    name: 'Minitron-4B-Base Q4_K_M',
    architecture: 'nemotron',
    keys: { 'attention.layer_norm_rms_epsilon': typed.f32(1e-5) },
    ...dense,
  },
  {
    name: 'Phi-3.5-MoE-instruct Q4_K_M',
    architecture: 'phimoe',
    keys: { 'attention.sliding_window': 512 },
    ...dense,
  },
  { name: 'Jais-2-8B-Chat Q4_K_M', architecture: 'jais2', preTokenizer: 'jais-2', ...dense },
  { name: 'PaddleOCR-VL Q8_0 (text)', architecture: 'paddleocr', types: ['Q8_0'], headDim: 128 },
  { name: 'OpenLLaMA-3B Q4_0', architecture: 'llama', types: ['Q4_0', 'Q6_K'], headDim: 100 },
  { name: 'H2O-Danube3-4B-Chat Q4_K_M', architecture: 'llama', types: Q4_K_M, headDim: 120 },
  ...KNOWN_ENCODERS,
];

/** The file's header over a random model. */
export function headerOf(file: KnownFile): GgufBuilder {
  const builder = isEncoder(file.architecture) ? encoderOf(file.architecture, file) : decoderOf(file);
  const matrices = [...builder.read().tensors.values()].filter(
    ({ name, dims }) =>
      dims.length >= 2 &&
      !/\.bias$|_norm\.weight$|^cls\.output|ffn_gate_inp|ssm_conv1d|altup_|laurel_|^position_embd|^token_types/.test(
        name,
      ),
  );
  for (const [i, { name }] of matrices.entries()) builder.retype(name, file.types[i % file.types.length]!);
  return builder;
}

function decoderOf(file: KnownFile): GgufBuilder {
  const family =
    file.family ?? (file.refused?.startsWith('architecture') ? 'llama' : (file.architecture as RandomFamilyName));
  const { tokens, types, merges, bos, eos } = syntheticVocabulary(VOCABULARY);
  const byteLevel = {
    'tokenizer.ggml.model': 'gpt2',
    'tokenizer.ggml.pre': file.preTokenizer,
    'tokenizer.ggml.tokens': tokens,
    'tokenizer.ggml.token_type': typed.arrayOf(typed.i32, types),
    'tokenizer.ggml.merges': merges,
    'tokenizer.ggml.scores': undefined,
    'tokenizer.ggml.bos_token_id': bos,
    'tokenizer.ggml.eos_token_id': eos,
  };
  const keys = Object.entries(file.keys ?? {}).map(([key, value]) => [`${file.architecture}.${key}`, value]);
  return randomModel({
    family,
    hidden: 256,
    // One of each kind.
    layers: family.startsWith('qwen35') ? 4 : ((RANDOM_FAMILIES[family] as RandomFamily).layers ?? 2),
    metadata: {
      'general.architecture': file.architecture,
      ...(file.preTokenizer !== undefined && byteLevel),
      ...Object.fromEntries(keys),
    },
    tensors: Object.fromEntries(Object.entries(file.tensors ?? {}).map(([name, dims]) => [name, { dims }])),
  });
}

/** Tokens of a random model. */
const VOCABULARY = 299;

/** The table of docs/models.md. */
export function knownFilesTable(): string {
  const rows = KNOWN_FILES.map(({ name, architecture, preTokenizer, isUnigram, types, headDim, refused }) => {
    const unnamed = isUnigram ? 'Unigram' : isEncoder(architecture) ? 'WordPiece' : 'SentencePiece';
    const tokenizer = preTokenizer === undefined ? unnamed : `\`${preTokenizer}\``;
    return `| ${name} | \`${architecture}\` | ${tokenizer} | ${types.join(', ')} | ${headDim} | ${refused === undefined ? 'loads' : `no: ${refused}`} |`;
  });
  return [
    '| file | architecture | pre-tokenizer | matrices | head | |',
    '| --- | --- | --- | --- | --- | --- |',
    ...rows,
  ].join('\n');
}
