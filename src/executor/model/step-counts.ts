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
/** Whether rows are masked: 1, or 0. */
export const COUNT_MASKED = 8;
/** Slices, of a model whose layers have states. */
export const COUNT_SLICES = 9;
/** How many there are. */
export const STEP_COUNTS = 10;
