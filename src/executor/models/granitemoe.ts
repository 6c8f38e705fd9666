import type { Family } from './family.js';
import { granite } from './granite.js';

/** granitemoe: granite with experts for MLPs, and in some files one expert more for every row. Granite 3.x 1B-A400M, 3B-A800M. */
export const granitemoe: Family = { name: 'granitemoe', build: granite.build };
