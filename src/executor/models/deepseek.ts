import type { Family } from './family.js';
import { llama } from './llama.js';

/** deepseek: llama's blocks, with experts by their softmax, and shared ones, behind a few dense blocks. DeepSeekMoE 16B. */
export const deepseek: Family = { name: 'deepseek', build: llama.build };
