import type { Family } from './family.js';
import { llama } from './llama.js';

/** deepseek: llama's blocks, with dots1's experts behind a few dense blocks. DeepSeekMoE 16B, and the text part of DeepSeek-OCR's files of that name. */
export const deepseek: Family = { name: 'deepseek', build: llama.build };
