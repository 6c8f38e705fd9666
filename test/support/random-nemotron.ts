import { typed } from './gguf-builder.js';
import { NETTED, type RandomFamily, ROUTED } from './random-family.js';

const shared = { layers: 5, isApart: true, hasNoGate: true, norms: ['attn_norm'] } as const;

/** Keys of five blocks: a Mamba 2 layer, an FFN of a width, attention, and the first two again. */
const keysOf = (ffn: number) => ({
  'attention.head_count_kv': typed.arrayOf(typed.i32, [0, 0, 2, 0, 0]),
  feed_forward_length: typed.arrayOf(typed.i32, [0, ffn, 0, 0, ffn]),
  'attention.layer_norm_epsilon': typed.f32(1e-5),
  'rope.scaling.finetuned': false,
});

/** Nemotron-H, dense and with experts. */
export const RANDOM_NEMOTRON = {
  nemotron_h: {
    ...shared,
    biases: ['attn_q', 'ffn_up', 'ffn_down'],
    mamba: { heads: 4, dim: 48, state: 64, groups: 2 },
    metadata: keysOf(128),
    scaled: NETTED,
  },
  nemotron_h_moe: {
    ...shared,
    mamba: { heads: 4, dim: 32, state: 64, groups: 2 },
    experts: { count: 8, used: 3, ffn: 64, sharedFfn: 128, hasChoiceBias: true },
    metadata: {
      ...keysOf(64),
      expert_weights_norm: true,
      expert_weights_scale: typed.f32(2.5),
      expert_group_count: 1,
    },
    scaled: { ...ROUTED, ...NETTED },
  },
} as const satisfies Readonly<Record<string, RandomFamily>>;
