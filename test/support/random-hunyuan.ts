import { type RandomFamily, ROUTED } from './random-family.js';

/** Families whose heads are normalized after RoPE has turned them. */
export const RANDOM_HUNYUAN = {
  'hunyuan-dense': { architecture: 'hunyuan-dense', qkNorm: 'head', isTied: true, scaled: { token_embd: 0.04 } },
  maincoder: { qkNorm: 'head' },
  'hunyuan-moe': {
    architecture: 'hunyuan-moe',
    qkNorm: 'head',
    experts: { count: 16, used: 4, ffn: 128, sharedFfn: 192 },
    metadata: { expert_feed_forward_length: 128 },
    scaled: ROUTED,
  },
} as const satisfies Readonly<Record<string, RandomFamily>>;
