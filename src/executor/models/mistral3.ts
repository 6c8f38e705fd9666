import type { Family } from './family.js';
import { llama } from './llama.js';

/** mistral3: llama's blocks; yarn stretches positions, and queries beyond the original context are multiplied by its logarithm. */
export const mistral3: Family = { name: 'mistral3', build: llama.build };
