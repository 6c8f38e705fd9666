import type { Sequence } from '../../request/sequence.js';

/** What one step is to do. Blocks and slots are allotted; nothing is sent yet. */
export interface StepPlan {
  readonly stepId: number;
  readonly closes: readonly number[];
  readonly opens: readonly { readonly sequence: Sequence; readonly slot: number; readonly blocks: readonly number[] }[];
  readonly appends: readonly { readonly slot: number; readonly blocks: readonly number[] }[];
  readonly slices: readonly PlannedSlice[];
}

export interface PlannedSlice {
  readonly sequence: Sequence;
  readonly slot: number;
  readonly position: number;
  readonly count: number;
  /** Whether the token after the slice is sampled. */
  readonly sample: boolean;
  /** Whether each position whose next token is in the prompt returns that token's log probability. */
  readonly promptLogprobs: boolean;
}

/** A token that a step brought for a sequence that still wants it. `index` counts the step's sampled slices. */
export interface StepToken {
  readonly sequence: Sequence;
  readonly index: number;
}

/** What has come back. */
export interface StepResult {
  readonly slices: readonly PlannedSlice[];
  readonly tokens: readonly StepToken[];
}
