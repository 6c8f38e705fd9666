import { POST_NORMS, type RandomFamily } from './random-family.js';

/** Sizes of heads that few models have: of open_llama 3B 100, of danube3 4B 120, and those that are no power of two besides. */
export const RANDOM_HEADS = {
  'llama-heads-72': { heads: [4, 2, 72] },
  'llama-heads-100': { heads: [4, 2, 100] },
  'llama-heads-120': { heads: [4, 1, 120] },
  'qwen3-heads-40': { heads: [4, 2, 40], qkNorm: 'head' },
  'qwen3-heads-100': { heads: [4, 2, 100], qkNorm: 'head' },
  'qwen3-heads-160': { heads: [2, 1, 160], qkNorm: 'head' },
  'glm4-heads-192': {
    heads: [4, 2, 192],
    joined: ['gate_up'],
    norms: POST_NORMS,
    metadata: { 'rope.dimension_count': 96 },
  },
} as const satisfies Readonly<Record<string, RandomFamily>>;
