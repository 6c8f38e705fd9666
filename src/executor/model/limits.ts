import type { KvCacheType } from '../kernels/index.js';

/** Limits of layers with a window. */
export interface WindowLimits {
  /** Positions that a row sees, its own included. */
  readonly window: number;
  /** KV blocks, their null block 0 included. */
  readonly blocks: number;
}

/** Limits that a loaded model grants; fixed while it is loaded. */
export interface Limits {
  /** The most tokens one sequence may hold. */
  readonly maxContext: number;
  /** Slots: the most sequences that may be open at once. */
  readonly maxSequences: number;
  /** The most rows (token positions) of one step. */
  readonly maxStepTokens: number;
  /** KV blocks, the null block 0 included. */
  readonly kvBlocks: number;
  /** Limits of layers that see only the latest positions; undefined if no layer ever hides one. */
  readonly windowed?: WindowLimits | undefined;
  /** Slots have states beside their blocks, which each row changes: see `RecurrentStates`. */
  readonly isRecurrent?: boolean;
  /** Snapshots of such states, beside those of slots; absent: none. */
  readonly stateSnapshots?: number;
  /** The most draft tokens in a slice of a slot with such states, whose rows' inputs are kept; absent: none. */
  readonly draftTokens?: number;
  /** A sequence is in one step as a whole: its rows see each other, each may return its hidden state, and nothing is sampled. */
  readonly isEncoder?: boolean;
  /** Element type of the KV cache. */
  readonly kvCacheType: KvCacheType;
  /** `unfused`: attention written out, one kernel an operation, to hold the fused kernels against. */
  readonly attention: 'fused' | 'unfused';
}
