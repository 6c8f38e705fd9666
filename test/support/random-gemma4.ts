import { typed } from './gguf-builder.js';
import { POST_NORMS, type RandomFamily, ROUTED } from './random-family.js';

/** Keys of a model of so many layers, of which those of the list are windowed; those of each layer's shape follow from it. */
const keysOf = (windowed: readonly boolean[]) => ({
  'attention.sliding_window': 24,
  'attention.sliding_window_pattern': typed.arrayOf(typed.bool, [...windowed]),
  'attention.key_length': 64,
  'attention.value_length': 64,
  'attention.key_length_swa': 32,
  'attention.value_length_swa': 32,
  'rope.dimension_count': 64,
  'rope.dimension_count_swa': 32,
  'rope.freq_base': typed.f32(1_000_000),
  'rope.freq_base_swa': typed.f32(10_000),
  final_logit_softcapping: typed.f32(3),
});

/** A quarter of a global head is rotated: the other pairs' frequencies are divided by so much that they stand still. */
const ROTATED = {
  'rope_freqs.weight': { length: 32, mean: 1, values: [...Array(8).fill(1), ...Array(24).fill(1e30)] },
};

const SHARED_WINDOWS = [true, false, true, false, true, true, true, false];
const WINDOWS = [true, true, false, true, false];

const COMMON = {
  heads: [4, 1, 64],
  isTied: true,
  norms: POST_NORMS,
  qkNorm: 'head',
  vectors: ROTATED,
  hasOutputScales: true,
  // Scores are not divided by anything but what these norms learn.
  means: { attn_q_norm: 0.2 },
} as const;

/** Models of 31 billion parameters: keys of global layers are their values, and fewer heads have them. */
const LARGE = {
  ...COMMON,
  layers: WINDOWS.length,
  layerShape: (layer: number) => {
    const isSlidingWindow = WINDOWS[layer] === true;
    return {
      kvHeads: isSlidingWindow ? 2 : 1,
      headDim: isSlidingWindow ? 32 : 64,
      ffn: 128,
      hasNoValues: !isSlidingWindow,
    };
  },
  scaled: { token_embd: 0.04 },
} as const;

/** As llama.cpp has it: the first twenty layers have keys and values, the two before the rest are one of each kind. */
const OWN_LAYERS = 20;
const GEMMA3N_WINDOWS = Array.from(
  { length: OWN_LAYERS + 3 },
  (_, layer) => layer % 5 !== 4 && layer !== OWN_LAYERS + 1,
);

/** Gemma 3n, whose file has keys and values of the layers that share others. */
export const RANDOM_GEMMA3N = {
  gemma3n: {
    layers: GEMMA3N_WINDOWS.length,
    heads: [4, 1, 32],
    isTied: true,
    norms: POST_NORMS,
    qkNorm: 'head',
    // No other width, and rank, is taken.
    layerInputs: 256,
    layerShape: () => ({ kvHeads: 1, headDim: 32, ffn: 128 }),
    hasAltup: true,
    metadata: {
      'attention.sliding_window': 24,
      'attention.sliding_window_pattern': typed.arrayOf(typed.bool, GEMMA3N_WINDOWS),
      'attention.shared_kv_layers': GEMMA3N_WINDOWS.length - OWN_LAYERS,
      'rope.freq_base': typed.f32(1_000_000),
      'altup.active_idx': 0,
      'altup.num_inputs': 4,
      activation_sparsity_scale: typed.arrayOf(
        typed.f32,
        GEMMA3N_WINDOWS.map((_, layer) => (layer < 10 ? 1.6448533535003662 : Number.NEGATIVE_INFINITY)),
      ),
    },
    // So many layers would drown the embedding, and multiply roundings. Logits are large enough for their cap of 30.
    means: {
      attn_q_norm: 0.2,
      post_attention_norm: 0.2,
      laurel_post_norm: 0.2,
      post_ffw_norm: 0.1,
      post_norm: 0.1,
      output_norm: 2,
    },
    scaled: { token_embd: 0.08 },
  },
} as const satisfies Readonly<Record<string, RandomFamily>>;

/** Gemma 4: small models with inputs of each layer and shared keys and values; large ones, dense and with experts. */
export const RANDOM_GEMMA4 = {
  gemma4: {
    ...COMMON,
    layers: SHARED_WINDOWS.length,
    layerInputs: 64,
    layerShape: (layer: number) => {
      const headDim = SHARED_WINDOWS[layer] ? 32 : 64;
      return layer < 4 ? { kvHeads: 1, headDim, ffn: 128 } : { kvHeads: 1, headDim, ffn: 256, isShared: true };
    },
    metadata: {
      ...keysOf(SHARED_WINDOWS),
      'attention.shared_kv_layers': 4,
    },
    scaled: { token_embd: 0.04 },
  },
  'gemma4-large': {
    ...LARGE,
    metadata: { ...keysOf(WINDOWS), 'attention.shared_kv_layers': 0 },
  },
  'gemma4-experts': {
    ...LARGE,
    joined: ['gate_up'],
    experts: { count: 16, used: 4, ffn: 64, isBeside: true },
    metadata: { ...keysOf(WINDOWS), 'attention.shared_kv_layers': 0 },
    scaled: { token_embd: 0.04, ffn_gate_inp: 8 * ROUTED.ffn_gate_inp },
  },
} as const satisfies Readonly<Record<string, RandomFamily>>;
