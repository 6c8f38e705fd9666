import type { Sequence } from './sequence.js';

/** The prefix without tokens: the parent of first blocks. */
export const NO_PREFIX = 0;

/** A snapshot of recurrent states that a sequence holds: nobody else may write it. */
export interface HeldSnapshot {
  readonly id: number;
  /**
   * It `began` from it; or has `taken` it of its prompt, or is writing it; or it is `rolling`: written anew at the end of each
   * block that the sequence generates.
   */
  readonly kind: 'began' | 'taken' | 'rolling';
  /** It is the state before this position. */
  readonly position: number;
}

/** Somebody computes the next blocks of a prompt already: who, and how many blocks the prompt then shares in all. */
export interface InFlightPrefix {
  readonly producer: Sequence;
  readonly blocks: number;
}

/** Checksums of what a sequence has written to its last block. */
export interface OpenSums {
  readonly block: number;
  readonly windowBlock: number | undefined;
  /** Position after the last one. */
  readonly end: number;
  readonly sum: bigint;
  readonly windowSum: bigint | undefined;
}
