import type { Family } from './family.js';
import { llama } from './llama.js';

/** chatglm: llama's blocks, q, k and v in one matrix with a bias, gate and up in one; partial RoPE. */
export const chatglm: Family = { name: 'chatglm', build: llama.build };
