import type { TokenMask } from '../../matching/token-constraint.js';
import type { Pooling } from '../../request/pooling.js';
import type { DraftMethod, Sequence } from '../../request/sequence.js';
import type { PlannedChecksums } from './block-checksums.js';

/** A slot that begins a sequence, and its block tables so far. */
export interface PlannedOpen {
  readonly sequence: Sequence;
  readonly slot: number;
  readonly blocks: readonly number[];
  /** That of layers with a window, from its entry `windowStart` on. */
  readonly windowStart: number;
  readonly windowBlocks: readonly number[];
}

/** More blocks for a slot. */
export interface PlannedAppend {
  readonly slot: number;
  readonly blocks: readonly number[];
  readonly windowBlocks: readonly number[];
}

/** Work of one step. Blocks and slots are allotted; nothing is sent yet. */
export interface StepPlan {
  readonly stepId: number;
  readonly closes: readonly number[];
  readonly opens: readonly PlannedOpen[];
  readonly appends: readonly PlannedAppend[];
  readonly slices: readonly PlannedSlice[];
  /** Blocks whose checksums it returns. */
  readonly checksums?: PlannedChecksums | undefined;
}

export interface PlannedSlice {
  readonly sequence: Sequence;
  readonly slot: number;
  readonly position: number;
  readonly count: number;
  /** True if the token after the slice is sampled. */
  readonly sample: boolean;
  /** True if each position whose next token is in the prompt returns that token's log probability. */
  readonly promptLogprobs: boolean;
  /** Pooling of hidden states up to the end of the slice; undefined: none is returned. */
  readonly pooling: Pooling | undefined;
  /** Tokens of a slice that states them: the last known one, and draft tokens after it. Each position is sampled then. */
  readonly tokens?: readonly number[] | undefined;
  /** Mask of a constrained sample, or a mark that it depends on a token that is under way. */
  readonly mask?: TokenMask | 'pending' | undefined;
  /** Masks of a constrained slice with draft tokens: one a position, instead. */
  readonly draftTokenMasks?: readonly TokenMask[] | undefined;
  /** Number of draft tokens that the method has made: those that follow are forced by their masks. */
  readonly proposed?: number | undefined;
  readonly draftMethod?: DraftMethod | undefined;
  /** Tokens that the prediction block drafts behind the sampled one; undefined: it skips the slice. */
  readonly predictedTokens?: number | undefined;
  /** Snapshots of recurrent states that it goes from and to, in place of its slot's own. */
  readonly fromSnapshot?: number | undefined;
  readonly toSnapshot?: number | undefined;
}

/** A token that a step brought for a sequence that still wants it. `index` counts the step's sampled slices. */
export interface StepToken {
  readonly sequence: Sequence;
  readonly index: number;
}

/** Results of a step. */
export interface StepResult {
  readonly slices: readonly PlannedSlice[];
  readonly tokens: readonly StepToken[];
}

/** Tokens that are sampled for a slice. */
export function outputsOf({ sample, tokens }: Pick<PlannedSlice, 'sample' | 'tokens'>): number {
  if (!sample) return 0;
  return tokens?.length ?? 1;
}

/** True if a slice has draft tokens behind the token that was sampled last. */
export const hasDraftTokens = ({ tokens }: Pick<PlannedSlice, 'tokens'>): boolean => (tokens?.length ?? 0) > 1;

/** The slice of each token that a step samples, in order. */
export function sampledSlices(step: StepPlan | undefined): readonly PlannedSlice[] {
  const sampled: PlannedSlice[] = [];
  for (const slice of step?.slices ?? []) for (let i = outputsOf(slice); i > 0; i--) sampled.push(slice);
  return sampled;
}
