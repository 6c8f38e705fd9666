import { typed } from './gguf-builder.js';
import { HYBRID, NETTED, POST_NORMS, QKV, type RandomFamily, ROUTED } from './random-family.js';
import { LAYER_NORM_ALIASES } from './random-layer-norms.js';

/**
 * Random models that are computed as one of the families is, from files that say it otherwise: of architectures that are aliases, and
 * with keys that other files of the family do not have.
 */
export const RANDOM_ALIASES = {
  // Without norms of its states.
  'falcon-h1-plain': {
    architecture: 'falcon-h1',
    isTied: true,
    mamba: { heads: 4, dim: 32, state: 64, groups: 1, isBeside: true, hasNoNorm: true },
    scaled: { token_embd: 0.04, ssm_out: 0.5 },
  },
  // Dense, and rotated.
  'granitehybrid-dense': {
    layers: 4,
    mamba: { heads: 4, dim: 32, state: 32, groups: 2 },
    metadata: { 'attention.head_count_kv': typed.arrayOf(typed.i32, [0, 0, 2, 0]), logit_scale: typed.f32(4) },
  },
  // llama.cpp tells models without attn_q_a by their number of layers.
  'deepseek2-lite': {
    layers: 26,
    latents: { rank: 64, plain: 32, rotated: 32, valueDim: 48 },
    experts: { count: 8, used: 3, ffn: 64, sharedFfn: 128, dense: 1 },
    metadata: {
      expert_shared_count: 2,
      leading_dense_block_count: 1,
      'rope.scaling.type': 'yarn',
      'rope.scaling.factor': typed.f32(4),
      'rope.scaling.original_context_length': 64,
      'rope.scaling.yarn_log_multiplier': typed.f32(0.0707),
    },
    // So many layers would drown the embedding.
    scaled: { ...ROUTED, attn_output: 0.3, ffn_down: 0.3, ffn_down_exps: 0.3, ffn_down_shexp: 0.3 },
  },
  'llama-partly-biased': { biases: ['attn_k', 'attn_output', 'ffn_up'] },
  'qwen2-joined': { joined: ['qkv'], biases: [...QKV, 'output'] },
  'qwen35moe-joined': {
    ...HYBRID,
    joined: ['gate_up'],
    nets: { keyHeads: 1, valueHeads: 2, dim: 128 },
    experts: { count: 16, used: 4, ffn: 64, sharedFfn: 64, isGated: true },
    scaled: { ffn_gate_inp: 7, ...NETTED },
  },
  'mistral3-experts': { experts: { count: 8, used: 2, ffn: 128 }, scaled: ROUTED },
  'granite-experts': {
    experts: { count: 8, used: 3, ffn: 128, sharedFfn: 64 },
    metadata: { logit_scale: typed.f32(4), residual_scale: typed.f32(0.4), embedding_scale: typed.f32(3) },
    scaled: ROUTED,
  },
  'exaone4-global': {
    qkNorm: 'head',
    norms: ['post_attention_norm', 'post_ffw_norm'],
  },
  // Granite 4.0 without state-space layers, as its converter writes it.
  'granite-4': {
    metadata: {
      logit_scale: typed.f32(4),
      residual_scale: typed.f32(0.4),
      embedding_scale: typed.f32(3),
      'attention.scale': typed.f32(0.4),
      'attention.head_count_kv': typed.arrayOf(typed.i32, [2, 2, 2, 2]),
      expert_shared_feed_forward_length: 128,
      'rope.scaling.finetuned': true,
      'ssm.conv_kernel': 4,
      'ssm.state_size': 256,
      'ssm.group_count': 1,
      'ssm.inner_size': 128,
      'ssm.time_step_rank': 4,
    },
  },
  // Olmo 3.
  'olmo2-3': {
    heads: [4, 2, 16],
    qkNorm: 'row',
    norms: ['post_attention_norm', 'post_ffw_norm'],
    metadata: {
      'attention.sliding_window': 24,
      'attention.sliding_window_pattern': typed.arrayOf(typed.bool, [true, true, true, false]),
      'rope.scaling.type': 'yarn',
      'rope.scaling.factor': typed.f32(8),
      'rope.scaling.original_context_length': 64,
      'rope.scaling.yarn_attn_factor': typed.f32(1.2079441541679836),
      'rope.scaling.yarn_beta_fast': typed.f32(32),
      'rope.scaling.yarn_beta_slow': typed.f32(1),
    },
  },
  // GLM-4.1V and GLM-OCR.
  'glm4-vision': {
    heads: [4, 2, 32],
    joined: ['gate_up'],
    biases: QKV,
    norms: POST_NORMS,
    metadata: {
      'rope.dimension_count': 16,
      'rope.dimension_sections': typed.arrayOf(typed.i32, [2, 3, 3, 0]),
    },
  },
  // GLM-4.5V.
  'glm4moe-vision': {
    heads: [4, 2, 32],
    qkNorm: 'head',
    biases: QKV,
    norms: ['attn_norm', 'post_attention_norm'],
    experts: { count: 8, used: 3, ffn: 64, sharedFfn: 128, dense: 1, hasChoiceBias: true },
    metadata: {
      'rope.dimension_count': 16,
      'rope.dimension_sections': typed.arrayOf(typed.i32, [2, 3, 3, 0]),
      expert_shared_count: 2,
      leading_dense_block_count: 1,
      expert_weights_norm: true,
      expert_gating_func: 2,
    },
    scaled: ROUTED,
  },
  baichuan: { layers: 32, heads: [4, 4, 16], means: { attn_norm: 0.4, ffn_norm: 0.4 } },
  deci: {
    metadata: {
      'attention.head_count': typed.arrayOf(typed.i32, [4, 4, 4, 4]),
      'attention.head_count_kv': typed.arrayOf(typed.i32, [2, 2, 2, 2]),
      feed_forward_length: typed.arrayOf(typed.i32, [128, 128, 128, 128]),
    },
    vectors: { 'rope_freqs.weight': { length: 8, mean: 2 } },
  },
  ernie4_5: { isTied: true, scaled: { token_embd: 0.04 } },
  exaone: { vectors: { 'rope_freqs.weight': { length: 8, mean: 2 } } },
  internlm2: {},
  minicpm: {
    isTied: true,
    metadata: {
      logit_scale: typed.f32(4),
      residual_scale: typed.f32(0.4),
      embedding_scale: typed.f32(3),
      'rope.scaling.finetuned': false,
    },
    scaled: { token_embd: 0.04 },
  },
  'minicpm-old': { isTied: true, scaled: { token_embd: 0.02 } },
  nanbeige: { metadata: { num_loops: 1, skip_loop_final_norm: false } },
  paddleocr: { metadata: { 'rope.dimension_sections': typed.arrayOf(typed.i32, [2, 3, 3, 0]) } },
  'pangu-embedded': { architecture: 'pangu-embedded', biases: [...QKV, 'attn_output'] },
  qwen: { heads: [4, 4, 16], joined: ['qkv'], biases: ['attn_qkv'] },
  qwen2vl: { biases: QKV, metadata: { 'rope.dimension_sections': typed.arrayOf(typed.i32, [2, 3, 3, 0]) } },
  qwen3vl: {
    qkNorm: 'head',
    metadata: { n_deepstack_layers: 3, 'rope.dimension_sections': typed.arrayOf(typed.i32, [3, 3, 2, 0]) },
  },
  qwen3vlmoe: {
    qkNorm: 'head',
    experts: { count: 16, used: 4, ffn: 64 },
    metadata: { n_deepstack_layers: 3, 'rope.dimension_sections': typed.arrayOf(typed.i32, [3, 3, 2, 0]) },
    scaled: ROUTED,
  },
  xverse: { heads: [4, 4, 16] },
  ...LAYER_NORM_ALIASES,
} as const satisfies Readonly<Record<string, RandomFamily>>;
