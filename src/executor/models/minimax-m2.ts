import type { Family } from './family.js';
import { olmoe } from './olmoe.js';

/** minimax-m2: olmoe's blocks, a part of each head rotated, with sigmoid scores and a bias for the choice of experts. MiniMax-M2. */
export const minimaxM2: Family = { name: 'minimax-m2', build: olmoe.build };
