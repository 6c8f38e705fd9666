import type { Family } from './family.js';
import { qwen3 } from './qwen3.js';

/** dots1: qwen3's blocks, with glm4moe's experts behind a few dense blocks. dots.llm1. */
export const dots1: Family = { name: 'dots1', build: qwen3.build };
