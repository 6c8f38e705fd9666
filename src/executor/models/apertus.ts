import type { Family } from './family.js';
import { qwen3 } from './qwen3.js';

/** apertus: qwen3's blocks with an MLP that has no gate, whose xIELU has numbers of each layer. Apertus 8B and 70B. */
export const apertus: Family = { name: 'apertus', build: qwen3.build };
