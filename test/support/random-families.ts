import { typed } from './gguf-builder.js';
import { RANDOM_ALIASES } from './random-aliases.js';
import { RANDOM_EXPERTS } from './random-experts.js';
import { CONVOLVED, HYBRID, MLP, NETTED, POST_NORMS, QKV, type RandomFamily, ROUTED } from './random-family.js';
import { RANDOM_GEMMA3N, RANDOM_GEMMA4 } from './random-gemma4.js';
import { RANDOM_HEADS } from './random-heads.js';
import { RANDOM_HUNYUAN } from './random-hunyuan.js';
import { RANDOM_LAYER_NORMS } from './random-layer-norms.js';
import { RANDOM_NEMOTRON } from './random-nemotron.js';

/**
 * One model of each family with every optional tensor and key that its real files have, sized so that a prompt of a hundred
 * tokens goes past every window and past the context that RoPE was trained for.
 */
const OWN_FAMILIES = {
  llama: {},
  // As Granite Code, whose every matrix has a bias.
  'llama-biased': { biases: [...QKV, 'attn_output', ...MLP] },
  'llama-yarn': {
    metadata: {
      'rope.scaling.type': 'yarn',
      'rope.scaling.factor': typed.f32(4),
      'rope.scaling.original_context_length': 64,
    },
  },
  qwen2: { biases: QKV },
  'qwen2-unbiased': {},
  qwen3: { qkNorm: 'head' },
  gemma: { heads: [4, 1, 32], isTied: true, scaled: { token_embd: 0.04 } },
  gemma2: {
    heads: [4, 2, 32],
    isTied: true,
    norms: POST_NORMS,
    metadata: {
      attn_logit_softcapping: typed.f32(5),
      final_logit_softcapping: typed.f32(3),
      'attention.sliding_window': 24,
    },
    scaled: { attn_q: 3, attn_k: 3, token_embd: 0.04 },
  },
  gemma3: {
    heads: [4, 1, 32],
    isTied: true,
    norms: POST_NORMS,
    qkNorm: 'head',
    metadata: {
      'attention.sliding_window': 24,
      'rope.freq_base': typed.f32(1_000_000),
      'rope.scaling.type': 'linear',
      'rope.scaling.factor': typed.f32(8),
    },
    scaled: { token_embd: 0.04 },
  },
  phi3: {
    heads: [2, 1, 96],
    hidden: 192,
    joined: ['qkv', 'gate_up'],
    metadata: {
      'rope.dimension_count': 96,
      'rope.scaling.original_context_length': 64,
      'rope.scaling.attn_factor': typed.f32(1.19),
    },
    vectors: {
      'rope_factors_short.weight': { length: 48, mean: 1.2 },
      'rope_factors_long.weight': { length: 48, mean: 3 },
    },
  },
  glm4: {
    heads: [4, 2, 32],
    joined: ['gate_up'],
    biases: QKV,
    norms: POST_NORMS,
    metadata: { 'rope.dimension_count': 16 },
  },
  chatglm: {
    joined: ['qkv', 'gate_up'],
    biases: ['attn_qkv'],
    metadata: { 'rope.dimension_count': 8 },
  },
  granite: {
    metadata: {
      logit_scale: typed.f32(4),
      residual_scale: typed.f32(0.4),
      embedding_scale: typed.f32(3),
      'attention.scale': typed.f32(0.4),
    },
  },
  olmo2: {
    heads: [4, 2, 16],
    qkNorm: 'row',
    norms: ['post_attention_norm', 'post_ffw_norm'],
    metadata: {
      'attention.sliding_window': 24,
      'rope.scaling.type': 'yarn',
      'rope.scaling.factor': typed.f32(4),
      'rope.scaling.original_context_length': 64,
    },
  },
  smollm3: { isTied: true, scaled: { token_embd: 0.04 } },
  mistral3: {
    metadata: {
      'rope.scaling.type': 'yarn',
      'rope.scaling.factor': typed.f32(4),
      'rope.scaling.original_context_length': 64,
      'rope.scaling.yarn_beta_fast': typed.f32(24),
      'rope.scaling.yarn_beta_slow': typed.f32(2),
      'rope.scaling.yarn_log_multiplier': typed.f32(0.7),
      'attention.temperature_scale': typed.f32(0.3),
    },
  },
  'command-r': {
    architecture: 'command-r',
    isTied: true,
    norms: ['attn_norm'],
    metadata: {
      'attention.layer_norm_rms_epsilon': undefined,
      'attention.layer_norm_epsilon': typed.f32(1e-5),
      logit_scale: typed.f32(0.25),
      'rope.scaling.type': 'none',
    },
    scaled: { token_embd: 0.04 },
  },
  // Mixtral.
  'llama-experts': {
    experts: { count: 8, used: 2, ffn: 128 },
    scaled: ROUTED,
  },
  qwen2moe: {
    biases: QKV,
    experts: { count: 10, used: 3, ffn: 64, sharedFfn: 192, isGated: true },
    scaled: ROUTED,
  },
  qwen3moe: {
    qkNorm: 'head',
    experts: { count: 16, used: 4, ffn: 64 },
    scaled: ROUTED,
  },
  granitemoe: {
    experts: { count: 8, used: 3, ffn: 128, sharedFfn: 64 },
    metadata: {
      logit_scale: typed.f32(4),
      residual_scale: typed.f32(0.4),
      embedding_scale: typed.f32(3),
      'attention.scale': typed.f32(0.4),
    },
    scaled: ROUTED,
  },
  glm4moe: {
    heads: [4, 2, 32],
    qkNorm: 'head',
    biases: QKV,
    norms: ['attn_norm', 'post_attention_norm'],
    experts: { count: 8, used: 3, ffn: 64, sharedFfn: 128, dense: 1, hasChoiceBias: true },
    metadata: {
      'rope.dimension_count': 16,
      expert_shared_count: 2,
      leading_dense_block_count: 1,
      expert_weights_norm: true,
      expert_weights_scale: typed.f32(1.7),
      expert_gating_func: 2,
    },
    scaled: ROUTED,
  },
  'gpt-oss': {
    architecture: 'gpt-oss',
    heads: [4, 2, 64],
    biases: [...QKV, 'attn_output'],
    norms: ['attn_norm', 'post_attention_norm'],
    hasSinks: true,
    experts: { count: 8, used: 3, ffn: 64, isBiased: true },
    metadata: {
      'attention.sliding_window': 24,
      'rope.scaling.type': 'yarn',
      'rope.scaling.factor': typed.f32(4),
      'rope.scaling.original_context_length': 64,
    },
    // Gates beyond their limit.
    scaled: { ...ROUTED, ffn_gate_exps: 3, ffn_up_exps: 3, ffn_down_exps: 0.05 },
  },
  qwen35: {
    ...HYBRID,
    nets: { keyHeads: 2, valueHeads: 4, dim: 32 },
    scaled: NETTED,
  },
  qwen35moe: {
    ...HYBRID,
    nets: { keyHeads: 1, valueHeads: 2, dim: 128 },
    experts: { count: 16, used: 4, ffn: 64, sharedFfn: 64, isGated: true },
    scaled: { ffn_gate_inp: 7, ...NETTED },
  },
  // As V3, with the temperature of Mistral Large 3.
  deepseek2: {
    latents: { queryRank: 96, rank: 64, plain: 32, rotated: 16, valueDim: 32 },
    experts: { count: 16, used: 4, ffn: 64, sharedFfn: 64, dense: 1, hasChoiceBias: true },
    metadata: {
      expert_shared_count: 1,
      leading_dense_block_count: 1,
      expert_weights_norm: true,
      expert_weights_scale: typed.f32(2.5),
      expert_gating_func: 2,
      expert_group_count: 4,
      expert_group_used_count: 2,
      'rope.scaling.type': 'yarn',
      'rope.scaling.factor': typed.f32(4),
      'rope.scaling.original_context_length': 64,
      'rope.scaling.yarn_log_multiplier': typed.f32(0.1),
      'attention.temperature_scale': typed.f32(0.3),
      'attention.temperature_length': 32,
    },
    // Scores are sharp by yarn's scale and the temperature, and their rounding with them.
    scaled: { ...ROUTED, attn_output: 0.5 },
  },
  granitehybrid: {
    layers: 4,
    mamba: { heads: 4, dim: 32, state: 32, groups: 1 },
    experts: { count: 8, used: 3, ffn: 128, sharedFfn: 64 },
    metadata: {
      'attention.head_count_kv': typed.arrayOf(typed.i32, [0, 0, 2, 0]),
      logit_scale: typed.f32(4),
      residual_scale: typed.f32(0.4),
      embedding_scale: typed.f32(3),
      'attention.scale': typed.f32(0.4),
      'rope.scaling.finetuned': false,
    },
    scaled: ROUTED,
  },
  'falcon-h1': {
    architecture: 'falcon-h1',
    mamba: { heads: 4, dim: 32, state: 64, groups: 2, isBeside: true },
  },
  arcee: { hasNoGate: true, biases: ['attn_q'] },
  bailingmoe2: {
    heads: [4, 2, 16],
    joined: ['qkv'],
    qkNorm: 'head',
    experts: { count: 16, used: 4, ffn: 64, sharedFfn: 128, dense: 1, hasChoiceBias: true },
    metadata: {
      'rope.dimension_count': 8,
      expert_shared_count: 2,
      leading_dense_block_count: 1,
      expert_weights_norm: true,
      expert_weights_scale: typed.f32(2.5),
      expert_gating_func: 2,
      expert_group_count: 4,
      expert_group_used_count: 2,
    },
    scaled: ROUTED,
  },
  'minimax-m2': {
    architecture: 'minimax-m2',
    heads: [4, 2, 32],
    qkNorm: 'row',
    experts: { count: 16, used: 4, ffn: 128, hasChoiceBias: true },
    metadata: { 'rope.dimension_count': 16, expert_feed_forward_length: 128, expert_gating_func: 2 },
    scaled: ROUTED,
  },
  qwen3next: {
    heads: [4, 2, 32],
    qkNorm: 'head',
    norms: ['attn_norm', 'post_attention_norm'],
    nets: { keyHeads: 2, valueHeads: 4, dim: 128, isGrouped: true },
    experts: { count: 16, used: 4, ffn: 64, sharedFfn: 64, isGated: true },
    metadata: { 'rope.dimension_count': 16 },
    scaled: { ffn_gate_inp: 7, ...NETTED },
  },
  ...RANDOM_GEMMA3N,
  ...RANDOM_GEMMA4,
  ...RANDOM_NEMOTRON,
  ...RANDOM_HEADS,
  ...RANDOM_HUNYUAN,
  ...RANDOM_EXPERTS,
  ...RANDOM_LAYER_NORMS,
  lfm2: { ...CONVOLVED, scaled: { token_embd: 0.04 } },
  lfm2moe: {
    ...CONVOLVED,
    experts: { count: 8, used: 3, ffn: 64, dense: 1, hasChoiceBias: true },
    metadata: { ...CONVOLVED.metadata, leading_dense_block_count: 1, expert_gating_func: 2 },
    scaled: { ...ROUTED, token_embd: 0.04 },
  },
  cohere2: {
    isTied: true,
    norms: ['attn_norm'],
    metadata: {
      'attention.layer_norm_rms_epsilon': undefined,
      'attention.layer_norm_epsilon': typed.f32(1e-5),
      'attention.sliding_window': 24,
      logit_scale: typed.f32(0.25),
      'rope.scaling.type': 'none',
    },
    scaled: { token_embd: 0.04 },
  },
  // Only in files of 64 layers llama.cpp sees the window.
  exaone4: {
    layers: 64,
    qkNorm: 'head',
    norms: ['post_attention_norm', 'post_ffw_norm'],
    metadata: { 'attention.sliding_window': 24 },
    vectors: { 'rope_freqs.weight': { length: 8, mean: 2 } },
    // So many layers would drown the embedding.
    means: { post_attention_norm: 0.2, post_ffw_norm: 0.2 },
  },
  apertus: {
    // As many as its keys list.
    layers: 4,
    qkNorm: 'head',
    hasNoGate: true,
    fileMetadata: {
      'xielu.alpha_n': typed.arrayOf(typed.f32, [0.1, -0.4, 0.7, 0.2]),
      'xielu.alpha_p': typed.arrayOf(typed.f32, [0.3, 0.8, -0.2, 0.5]),
      'xielu.beta': typed.arrayOf(typed.f32, [0.5, 0.5, 0.5, 0.4]),
      'xielu.eps': typed.arrayOf(typed.f32, [-1e-6, -0.3, -1e-6, -0.1]),
    },
    vectors: { 'rope_freqs.weight': { length: 8, mean: 2 } },
    scaled: { ffn_down: 0.5 },
  },
  seed_oss: { biases: QKV, norms: ['attn_norm', 'post_attention_norm'] },
} as const satisfies Readonly<Record<string, RandomFamily>>;

/** The families, and other files that they compute. */
export const RANDOM_FAMILIES = { ...OWN_FAMILIES, ...RANDOM_ALIASES } as const;

export type RandomFamilyName = keyof typeof RANDOM_FAMILIES;
export const RANDOM_FAMILY_NAMES = Object.keys(OWN_FAMILIES) as readonly RandomFamilyName[];
export const RANDOM_ALIAS_NAMES = Object.keys(RANDOM_ALIASES) as readonly RandomFamilyName[];

/** Families that together take every branch of the forward pass: dense, windows, sinks, experts, recurrent layers, shared keys. */
export const COVERING_FAMILIES: readonly RandomFamilyName[] = [
  'llama',
  'gemma3',
  'gpt-oss',
  'qwen3moe',
  'qwen35',
  'gemma4',
  'gptneox',
];

/** `general.architecture` of a random family. */
export const architectureOf = (name: RandomFamilyName): string =>
  (RANDOM_FAMILIES[name] as RandomFamily).architecture ?? name.replace(/-.*/, '');
