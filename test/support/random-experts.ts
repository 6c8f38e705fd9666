import { typed } from './gguf-builder.js';
import { QKV, type RandomFamily, ROUTED } from './random-family.js';

/** Families that differ in their experts alone. */
export const RANDOM_EXPERTS = {
  olmoe: {
    qkNorm: 'row',
    heads: [4, 4, 16],
    experts: { count: 16, used: 4, ffn: 128 },
    scaled: ROUTED,
  },
  'ernie4_5-moe': {
    architecture: 'ernie4_5-moe',
    experts: { count: 8, used: 3, ffn: 64, sharedFfn: 128, dense: 1, hasChoiceBias: true },
    metadata: { leading_dense_block_count: 1, interleave_moe_layer_step: 1, expert_shared_feed_forward_length: 128 },
    scaled: ROUTED,
  },
  dots1: {
    heads: [4, 4, 16],
    qkNorm: 'head',
    experts: { count: 8, used: 3, ffn: 64, sharedFfn: 128, dense: 1, hasChoiceBias: true },
    metadata: {
      expert_shared_count: 2,
      leading_dense_block_count: 1,
      expert_weights_norm: true,
      expert_weights_scale: typed.f32(1.7),
      expert_gating_func: 2,
    },
    scaled: ROUTED,
  },
  mellum: {
    qkNorm: 'head',
    experts: { count: 16, used: 4, ffn: 64 },
    metadata: {
      'attention.sliding_window': 24,
      'rope.scaling.type': 'yarn',
      'rope.scaling.factor': typed.f32(4),
      'rope.scaling.original_context_length': 64,
    },
    scaled: ROUTED,
  },
  phimoe: {
    biases: [...QKV, 'attn_output', 'attn_norm', 'ffn_norm', 'output_norm', 'output'],
    experts: { count: 8, used: 2, ffn: 128 },
    metadata: {
      'rope.dimension_count': 16,
      'rope.scaling.original_context_length': 64,
      'rope.scaling.attn_factor': typed.f32(1.19),
    },
    vectors: {
      'rope_factors_short.weight': { length: 8, mean: 1.2 },
      'rope_factors_long.weight': { length: 8, mean: 3 },
    },
    scaled: ROUTED,
  },
  deepseek: {
    experts: { count: 8, used: 3, ffn: 64, sharedFfn: 128, dense: 1 },
    metadata: { expert_shared_count: 2, leading_dense_block_count: 1, expert_weights_scale: typed.f32(1.3) },
    scaled: ROUTED,
  },
  bailingmoe: {
    experts: { count: 16, used: 4, ffn: 64, sharedFfn: 128 },
    metadata: { expert_shared_count: 2, expert_weights_norm: true, expert_weights_scale: typed.f32(2) },
    scaled: ROUTED,
  },
} as const satisfies Readonly<Record<string, RandomFamily>>;
