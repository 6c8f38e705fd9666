import type { Family } from './family.js';
import { llama } from './llama.js';

/** chatglm: llama's blocks, q, k and v in one matrix with a bias, gate and up in one; RoPE turns a part of each head. */
export const chatglm: Family = { name: 'chatglm', build: llama.build };
