import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { RandomWeights } from '../../src/cli/synth/random-weights.js';
import type { ArchitectureName } from '../../src/lib/gguf/architectures.js';
import type { TensorTypeName } from '../../src/lib/gguf/tensor-types.js';
import { type BuilderValue, GgufBuilder, typed } from './gguf-builder.js';
import { fillRandomly, gaussian, toHalves } from './random-weights.js';

/** An encoder's random model: what its blocks and embeddings have. */
interface RandomEncoder {
  /** `general.architecture`; default: the name. */
  readonly architecture?: string;
  /** Width between two products behind the last norm. */
  readonly dense?: number;
  readonly layers: number;
  readonly heads: readonly [heads: number, kvHeads: number];
  readonly joined?: readonly ('qkv' | 'gate_up')[];
  readonly hasGate: boolean;
  /** Norms of a block, in any order. */
  readonly norms: readonly string[];
  /** Norms, q, k, v, outputs and MLPs have biases. */
  readonly biases: 'all' | 'norms' | 'norms and outputs' | 'none';
  readonly qkNorm?: true;
  /** Norms of the embeddings and behind the last block. */
  readonly ends: readonly ('token_embd_norm' | 'output_norm')[];
  readonly hasPositions?: true;
  readonly hasSegments?: true;
  /** The first block's attention has no norm. */
  readonly lacksFirstNorm?: true;
  readonly embeddingScale?: number;
  /** Keys without the architecture's prefix. */
  readonly metadata: Readonly<Record<string, BuilderValue>>;
}

const LAYER_NORM = { 'attention.layer_norm_epsilon': typed.f32(1e-5), 'attention.causal': false } as const;
const POST_NORMS = ['attn_output_norm', 'layer_output_norm'] as const;

const GEMMA = {
  layers: 7,
  heads: [4, 1],
  hasGate: true,
  norms: ['attn_norm', 'post_attention_norm', 'ffn_norm', 'post_ffw_norm'],
  biases: 'none',
  qkNorm: true,
  ends: ['output_norm'],
  embeddingScale: 0.04,
  metadata: {
    'attention.layer_norm_rms_epsilon': typed.f32(1e-6),
    'attention.sliding_window': 24,
    'rope.freq_base': typed.f32(1_000_000),
    pooling_type: 1,
  },
} as const;

/** One model of each architecture, with windows that a text of a hundred tokens outgrows on both sides. */
export const RANDOM_ENCODERS = {
  bert: {
    layers: 3,
    heads: [4, 4],
    hasGate: false,
    norms: POST_NORMS,
    biases: 'all',
    ends: ['token_embd_norm'],
    hasPositions: true,
    hasSegments: true,
    metadata: { ...LAYER_NORM, pooling_type: 2 },
  },
  'nomic-bert': {
    layers: 3,
    heads: [4, 4],
    joined: ['qkv'],
    hasGate: true,
    norms: POST_NORMS,
    biases: 'norms',
    ends: ['token_embd_norm'],
    hasSegments: true,
    metadata: { ...LAYER_NORM, pooling_type: 1, 'rope.freq_base': typed.f32(1000) },
  },
  'gemma-embedding': GEMMA,
  'gemma-embedding-dense': {
    ...GEMMA,
    architecture: 'gemma-embedding',
    dense: 192,
    metadata: {
      ...GEMMA.metadata,
      ...{ dense_2_feat_in: 64, dense_2_feat_out: 192, dense_3_feat_in: 192, dense_3_feat_out: 64 },
    },
  },
  'modern-bert': {
    layers: 4,
    heads: [4, 4],
    joined: ['qkv', 'gate_up'],
    hasGate: true,
    norms: ['attn_norm', 'ffn_norm'],
    biases: 'none',
    ends: ['token_embd_norm', 'output_norm'],
    lacksFirstNorm: true,
    metadata: {
      ...LAYER_NORM,
      'attention.sliding_window': 20,
      'attention.sliding_window_pattern': 3,
      'rope.freq_base': typed.f32(160_000),
      'rope.scaling.type': 'none',
      pooling_type: 2,
    },
  },
  'jina-bert-v2': {
    layers: 3,
    // As many as no power of two: some slopes are between the others.
    heads: [6, 6],
    joined: ['gate_up'],
    hasGate: true,
    norms: POST_NORMS,
    biases: 'norms and outputs',
    ends: ['token_embd_norm'],
    hasSegments: true,
    metadata: { ...LAYER_NORM, pooling_type: 1 },
  },
} as const satisfies Readonly<Record<string, RandomEncoder>>;
export type RandomEncoderName = keyof typeof RANDOM_ENCODERS;
export const RANDOM_ENCODER_NAMES = Object.keys(RANDOM_ENCODERS) as readonly RandomEncoderName[];

const LETTERS = 'abcdefghijklmnopqrstuvwxyz0123456789';
const WORDS = ['the', 'fox', 'sea', 'and', 'ran', 'old', 'wind', 'sang', 'long', 'night', 'to', 'a'];
const ENDINGS = ['ing', 'er', 'ed'];
/** An encoder's `general.architecture`. */
export const encoderArchitecture = (name: RandomEncoderName): ArchitectureName =>
  ((RANDOM_ENCODERS[name] as RandomEncoder).architecture ?? name) as ArchitectureName;

/** Ids of the tokens around each text. */
export const [CLS, SEP] = [2, 3];
const TOKENS = [
  ...['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'],
  ...WORDS.filter((word) => word.length > 1).map((word) => `▁${word}`),
  ...[...LETTERS, ...'.,-!?'].map((letter) => `▁${letter}`),
  ...ENDINGS,
  ...LETTERS,
];
export const RANDOM_ENCODER_VOCABULARY = TOKENS.length;

/** Tensors of a head: rows of `cls`, or as many as the model has elements; a norm behind it; and labels of `cls.output`. */
export interface RandomHead {
  readonly dense?: number | 'hidden';
  readonly isBiased?: boolean;
  readonly isNormed?: boolean;
  readonly labels?: number;
}

export interface RandomEncoderOptions {
  readonly type?: 'F32' | 'F16';
  /** Width of the residual stream: 64 for every head's 16; 256 for weights in blocks of as many. */
  readonly hidden?: number;
  /** Elements of a head, 16 by default; there are as many fewer heads. */
  readonly headDim?: number;
  /** Number of blocks, in place of the architecture's. */
  readonly layers?: number;
  readonly contextLength?: number;
  /** Tables whose second row is the first, and the first the last. */
  readonly shifted?: readonly ('token_types' | 'position_embd')[];
  /** Types of matrices by their names' ends, in place of `type`: random blocks. */
  readonly blocks?: (kind: string) => TensorTypeName;
  /** A head that makes scores. */
  readonly head?: RandomHead | undefined;
  /** Rows of the embedding; default {@link RANDOM_ENCODER_VOCABULARY}. */
  readonly vocabulary?: number;
  /** Changed metadata, by full key; `undefined` leaves the key out. */
  readonly metadata?: Readonly<Record<string, BuilderValue | undefined>>;
  /** More tensors, all zero. */
  readonly tensors?: Readonly<Record<string, readonly number[]>>;
}

/** Writes the random model of an encoder. The same options give the same file. @returns its path, in a temporary folder */
export function writeRandomEncoder(name: RandomEncoderName, options: RandomEncoderOptions = {}): string {
  const file = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), `${name}.gguf`);
  writeFileSync(file, randomEncoder(name, options).build());
  return file;
}

/** {@link writeRandomEncoder} before it is written. */
export function randomEncoder(name: RandomEncoderName, options: RandomEncoderOptions): GgufBuilder {
  const { type = 'F32', contextLength = 256, headDim = 16 } = options;
  const encoder: RandomEncoder = RANDOM_ENCODERS[name];
  const times = (options.hidden ?? 64) / 64;
  const [heads, kvHeads] = encoder.heads.map((count) => (count * times * 16) / headDim) as [number, number];
  const layers = options.layers ?? encoder.layers;
  const hidden = name === 'jina-bert-v2' ? heads * headDim : 64 * times;
  const ffn = 2 * hidden;
  const architecture = encoderArchitecture(name);
  const random = gaussian(7);
  const builder = new GgufBuilder({ name: `${name}.gguf` });
  const prefixed = (keys: Readonly<Record<string, BuilderValue>>) =>
    Object.fromEntries(Object.entries(keys).map(([key, value]) => [`${architecture}.${key}`, value]));
  builder.setAll({
    'general.architecture': architecture,
    'general.name': `random ${name}`,
    ...prefixed({
      block_count: layers,
      context_length: contextLength,
      embedding_length: hidden,
      feed_forward_length: ffn,
      'attention.head_count': heads,
      'attention.head_count_kv': kvHeads,
      ...encoder.metadata,
      ...(encoder.dense !== undefined && times > 1 && denseKeys(hidden, encoder.dense * times)),
    }),
    'tokenizer.ggml.model': 'bert',
    'tokenizer.ggml.tokens': TOKENS,
    'tokenizer.ggml.token_type': typed.arrayOf(
      typed.i32,
      TOKENS.map((token) => (/^\[.+\]$/.test(token) ? 3 : 1)),
    ),
    'tokenizer.ggml.token_type_count': 2,
    'tokenizer.ggml.bos_token_id': CLS,
    'tokenizer.ggml.cls_token_id': CLS,
    'tokenizer.ggml.seperator_token_id': SEP,
    'tokenizer.ggml.unknown_token_id': 1,
    'tokenizer.ggml.padding_token_id': 0,
    'tokenizer.ggml.mask_token_id': 4,
    ...options.metadata,
  });
  const blocks = new RandomWeights(fillRandomly);
  const matrix = (tensor: string, columns: number, rows: number, scale = 1 / Math.sqrt(columns)): void => {
    const values = Float32Array.from({ length: columns * rows }, () => random() * scale);
    const isTable = /^(position_embd|token_types)/.test(tensor);
    if (options.shifted?.some((name) => tensor.startsWith(name)))
      values.set([...values.subarray(columns), ...values.subarray(0, columns)]);
    const own = isTable ? 'F32' : (options.blocks?.(tensor.split('.').at(-2) as string) ?? type);
    const dims = [columns, rows];
    if (own === 'F32') builder.tensor(tensor, { type: own, dims, data: new Uint8Array(values.buffer) });
    else if (own === 'F16') builder.tensor(tensor, { type: own, dims, data: new Uint8Array(toHalves(values).buffer) });
    else
      builder.tensor(tensor, { type: own, dims, data: Uint8Array.from(Buffer.concat([...blocks.bytes(own, dims)])) });
  };
  const vector = (tensor: string, length: number, mean: number): void => {
    const data = new Uint8Array(Float32Array.from({ length }, () => mean + 0.1 * random()).buffer);
    builder.tensor(tensor, { type: 'F32', dims: [length], data });
  };
  const norm = (tensor: string): void => {
    vector(`${tensor}.weight`, hidden, 1);
    if (encoder.biases !== 'none') vector(`${tensor}.bias`, hidden, 0);
  };
  const project = (tensor: string, columns: number, rows: number, isOutput = false): void => {
    matrix(`${tensor}.weight`, columns, rows);
    const isBiased = encoder.biases === 'all' || (encoder.biases === 'norms and outputs' && isOutput);
    if (isBiased) vector(`${tensor}.bias`, rows, 0);
  };
  matrix('token_embd.weight', hidden, options.vocabulary ?? TOKENS.length, encoder.embeddingScale ?? 1);
  if (encoder.hasPositions) matrix('position_embd.weight', hidden, contextLength, 0.5);
  if (encoder.hasSegments) matrix('token_types.weight', hidden, 2, 0.5);
  for (const end of encoder.ends) norm(end);
  for (let layer = 0; layer < layers; layer++) {
    const block = `blk.${layer}`;
    for (const name of encoder.norms) {
      if (name === 'attn_norm' && layer === 0 && encoder.lacksFirstNorm) continue;
      norm(`${block}.${name}`);
    }
    const [wide, kvWide] = [heads * headDim, kvHeads * headDim];
    if (encoder.joined?.includes('qkv')) project(`${block}.attn_qkv`, hidden, wide + 2 * kvWide);
    else {
      project(`${block}.attn_q`, hidden, wide);
      project(`${block}.attn_k`, hidden, kvWide);
      project(`${block}.attn_v`, hidden, kvWide);
    }
    if (encoder.qkNorm) for (const one of ['q', 'k']) vector(`${block}.attn_${one}_norm.weight`, headDim, 1);
    project(`${block}.attn_output`, wide, hidden, true);
    if (encoder.joined?.includes('gate_up')) project(`${block}.ffn_up`, hidden, 2 * ffn);
    else {
      if (encoder.hasGate) project(`${block}.ffn_gate`, hidden, ffn);
      project(`${block}.ffn_up`, hidden, ffn);
    }
    project(`${block}.ffn_down`, ffn, hidden, true);
  }
  if (encoder.dense !== undefined) {
    matrix('dense_2.weight', hidden, encoder.dense * times);
    matrix('dense_3.weight', encoder.dense * times, hidden);
  }
  const { head } = options;
  if (head?.dense !== undefined) {
    const rows = head.dense === 'hidden' ? hidden : head.dense;
    matrix('cls.weight', hidden, rows, 2 / Math.sqrt(hidden));
    if (head.isBiased) vector('cls.bias', rows, 0.2);
    if (head.isNormed) vector('cls.norm.weight', rows, 1);
  }
  if (head?.labels !== undefined) {
    matrix('cls.output.weight', hidden, head.labels, 2 / Math.sqrt(hidden));
    vector('cls.output.bias', head.labels, 0.3);
    const names = Array.from({ length: head.labels }, (_, label) => `LABEL_${label}`);
    if (head.labels > 1) builder.setAll(prefixed({ 'classifier.output_labels': names }));
  }
  for (const [tensor, dims] of Object.entries(options.tensors ?? {})) builder.tensor(tensor, { dims });
  return builder;
}

const denseKeys = (hidden: number, dense: number) => ({
  ...{ dense_2_feat_in: hidden, dense_2_feat_out: dense, dense_3_feat_in: dense, dense_3_feat_out: hidden },
});
