/** The most rows of one step: a dimension of a launch's grid. Executors grant no more, gateways believe no more. */
export const MOST_STEP_TOKENS = 65_535;

/** The most sequences that are open at once, likewise. */
export const MOST_SEQUENCES = 4096;

/** The most snapshots of recurrent states: more would be tables that nothing bounds. */
export const MOST_STATE_SNAPSHOTS = 16_384;

/** The most draft tokens of a slice. */
export const MOST_DRAFT_TOKENS = 7;

/** The most tokens of one sequence where nobody asks for another number: contexts beyond are granted when asked for. */
export const DEFAULT_CONTEXT = 8192;

/** The most that an executor chooses where it was not asked for a number. */
export const MOST_CHOSEN_SEQUENCES = 256;
