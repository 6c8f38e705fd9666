import type { Family } from './family.js';
import { llama } from './llama.js';

/** bailingmoe: deepseek, with weights that files normalize. Ling Lite, Ling Plus. */
export const bailingmoe: Family = { name: 'bailingmoe', build: llama.build };
