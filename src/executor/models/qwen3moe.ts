import type { Family } from './family.js';
import { qwen3 } from './qwen3.js';

/** qwen3moe: qwen3 with a mixture of experts in place of the MLP; the weights of a row's experts sum to 1. Qwen3-30B-A3B, Qwen3-Coder. */
export const qwen3moe: Family = { name: 'qwen3moe', build: qwen3.build };
