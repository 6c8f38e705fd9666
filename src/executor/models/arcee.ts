import type { Family } from './family.js';
import { llama } from './llama.js';

/** arcee: llama's blocks with an MLP that has no gate. AFM-4.5B. */
export const arcee: Family = { name: 'arcee', build: llama.build };
