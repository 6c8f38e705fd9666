import type { Family } from './family.js';
import { qwen3 } from './qwen3.js';

/** bailingmoe2: qwen3's blocks, a part of each head rotated, with experts in groups behind a few dense blocks. Ling 2, Ring 2. */
export const bailingmoe2: Family = { name: 'bailingmoe2', build: qwen3.build };
