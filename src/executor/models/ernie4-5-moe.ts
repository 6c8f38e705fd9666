import type { Family } from './family.js';
import { llama } from './llama.js';

/**
 * ernie4_5-moe: llama's blocks, with experts behind a few dense blocks and in most files one expert more for every row. Weights are
 * parts of the softmax; `exp_probs_b` decides the choice alone. ERNIE 4.5 21B-A3B.
 */
export const ernie45moe: Family = { name: 'ernie4_5-moe', build: llama.build };
