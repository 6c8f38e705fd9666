import { typed } from './gguf-builder.js';
import { QKV, type RandomFamily } from './random-family.js';

const NORMS = ['attn_norm', 'ffn_norm', 'output_norm'] as const;
const MATRICES = ['attn_output', 'ffn_up', 'ffn_down'] as const;
const EPSILON = {
  'attention.layer_norm_rms_epsilon': undefined,
  'attention.layer_norm_epsilon': typed.f32(1e-5),
} as const;

/** Random models of the families whose blocks have LayerNorms with biases. */
export const RANDOM_LAYER_NORMS = {
  starcoder2: {
    isTied: true,
    hasNoGate: true,
    biases: [...NORMS, ...QKV, ...MATRICES],
    metadata: EPSILON,
    scaled: { token_embd: 0.04 },
  },
  falcon: {
    heads: [4, 1, 16],
    joined: ['qkv'],
    hasNoGate: true,
    norms: ['attn_norm'],
    biases: NORMS,
    metadata: { ...EPSILON, tensor_data_layout: 'jploski' },
  },
  gptneox: {
    heads: [4, 4, 16],
    joined: ['qkv'],
    hasNoGate: true,
    biases: [...NORMS, 'attn_qkv', ...MATRICES],
    metadata: { ...EPSILON, 'rope.dimension_count': 4, use_parallel_residual: true },
  },
  // Command R+. llama.cpp reads norms of heads of 64 layers and more alone.
  'command-r-plus': {
    architecture: 'command-r',
    qkNorm: 'own-head',
    reference: 'float64',
    isTied: true,
    norms: ['attn_norm'],
    metadata: { ...EPSILON, logit_scale: typed.f32(0.25) },
    scaled: { token_embd: 0.04 },
  },
} as const satisfies Readonly<Record<string, RandomFamily>>;

/** Random models that are computed as one of these is. */
export const LAYER_NORM_ALIASES = {
  codeshell: {
    hasOutputAlone: true,
    joined: ['qkv'],
    hasNoGate: true,
    biases: [...NORMS, 'attn_qkv', ...MATRICES],
    metadata: { ...EPSILON, 'rope.scaling.type': 'linear', 'rope.scaling.factor': typed.f32(1) },
  },
  jais2: { heads: [4, 4, 16], hasNoGate: true, biases: [...NORMS, ...QKV, ...MATRICES], metadata: EPSILON },
  nemotron: { hasNoGate: true, biases: NORMS, metadata: { ...EPSILON, 'rope.dimension_count': 8 } },
  orion: { biases: NORMS, metadata: EPSILON },
  stablelm: {
    heads: [4, 4, 16],
    biases: [...NORMS, ...QKV],
    metadata: { ...EPSILON, 'rope.dimension_count': 4, use_parallel_residual: true },
  },
  // As StableLM 2 12B.
  'stablelm-parallel': {
    qkNorm: 'own-head',
    norms: ['attn_norm'],
    biases: NORMS,
    metadata: { ...EPSILON, 'rope.dimension_count': 4, use_parallel_residual: true },
  },
  phi2: {
    heads: [4, 4, 16],
    hasNoGate: true,
    norms: ['attn_norm'],
    biases: [...NORMS, ...QKV, ...MATRICES, 'output'],
    metadata: { ...EPSILON, 'rope.dimension_count': 8 },
  },
  // As many heads as Falcon 7B, which share one key head.
  'falcon-7b': {
    layers: 2,
    heads: [71, 1, 8],
    hidden: 568,
    joined: ['qkv'],
    hasNoGate: true,
    norms: ['attn_norm'],
    biases: NORMS,
    metadata: EPSILON,
  },
  // Attention has a norm of its own.
  'falcon-40b': {
    joined: ['qkv'],
    hasNoGate: true,
    norms: ['attn_norm', 'attn_norm_2'],
    biases: [...NORMS, 'attn_norm_2'],
    metadata: EPSILON,
  },
  'gptneox-sequential': {
    heads: [4, 4, 16],
    joined: ['qkv'],
    hasNoGate: true,
    biases: [...NORMS, 'attn_qkv', ...MATRICES],
    metadata: { ...EPSILON, use_parallel_residual: false },
  },
} as const satisfies Readonly<Record<string, RandomFamily>>;
