import type { Sequence } from './sequence.js';

/** The prefix without tokens: the parent of first blocks. */
export const NO_PREFIX = 0;

/** Somebody computes the next blocks of a prompt already: who, and how many blocks the prompt then shares in all. */
export interface Promised {
  readonly maker: Sequence;
  readonly blocks: number;
}
