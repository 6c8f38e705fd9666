import { combinesSplits } from '../kernels/index.js';

/** Index of each step count in the counts that a step brings to its plan: grids follow them. */
export const COUNT_TOKENS = 0;
/** Rows of logits: those that a token is drawn from, then those of prompts. */
export const COUNT_SAMPLES = 1;
export const COUNT_WRITES = 2;
/** Splits of ATTENTION_SPLIT positions that the longest context of the step has. */
export const COUNT_SPLITS = 3;
export const COUNT_DRAWS = 4;
export const COUNT_PROMPT_ROWS = 5;
/** Tiles of consecutive rows of one slot, where their contexts are not split. */
export const COUNT_TILES = 6;
/** Rows whose contexts are split among blocks: all of the step and no tiles, or none. */
export const COUNT_SPLIT_ROWS = 7;
/** True if rows are masked: 1, or 0. */
export const COUNT_MASKED = 8;
/** Slices, of a model whose layers have states. */
export const COUNT_SLICES = 9;
/** True if the step's only row is sampled: 1, or 0. */
export const COUNT_SINGLE_TOKEN = 10;
/** Rows of logits of all other steps. */
export const COUNT_GATHERED = 11;
/** True if some of the sampled rows have penalties, biases or a mask; noise; filters beside that; log probabilities: 1 each, or 0. */
export const COUNT_ADJUSTED = 12;
export const COUNT_DRAWN = 13;
export const COUNT_FILTERED = 14;
export const COUNT_TOLD = 15;
/** Rows with split contexts that their last blocks combine, and all other rows. */
export const COUNT_COMBINED = 16;
export const COUNT_PARTED = 17;
/** Rows whose hidden states are returned as they are. */
export const COUNT_HIDDEN = 18;
/** Rows with draft tokens of a model whose layers have states: their inputs are kept. */
export const COUNT_KEPT = 19;
/** Rows of a step that returns hidden states of any of them; 0 of other steps. */
export const COUNT_STATES = 20;
/** Slices whose hidden states are pooled, and the same if one of them returns scores, else 0. */
export const COUNT_POOLED = 21;
export const COUNT_SCORED = 22;
/** Number of counts. */
export const STEP_COUNTS = 23;

/** Sampling needs of a slot beyond its largest logit; launches that no row of a step needs are left out. */
export interface SamplingNeeds {
  readonly isAdjusted: boolean;
  readonly isDrawn: boolean;
  readonly isFiltered: boolean;
  readonly isTold: boolean;
}

/** Counts that a sampled row with such needs is part of the step. */
export function needs(counts: Int32Array, { isAdjusted, isDrawn, isFiltered, isTold }: SamplingNeeds): void {
  if (isAdjusted) counts[COUNT_ADJUSTED] = 1;
  if (isDrawn) counts[COUNT_DRAWN] = 1;
  if (isFiltered) counts[COUNT_FILTERED] = 1;
  if (isTold) counts[COUNT_TOLD] = 1;
}

/** Sets what follows from how many rows there are, of splits and of logits. */
export function settle(counts: Int32Array): void {
  const isAlone = counts[COUNT_TOKENS] === 1 && counts[COUNT_SAMPLES] === 1;
  counts[COUNT_SINGLE_TOKEN] = Number(isAlone);
  counts[COUNT_GATHERED] = isAlone ? 0 : (counts[COUNT_SAMPLES] as number);
  const splitRows = counts[COUNT_SPLIT_ROWS] as number;
  const isCombined = combinesSplits(splitRows, counts[COUNT_SPLITS] as number);
  counts[COUNT_COMBINED] = isCombined ? splitRows : 0;
  counts[COUNT_PARTED] = isCombined ? 0 : splitRows;
}
