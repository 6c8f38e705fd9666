/** Blocks that share a sampled row; `SAMPLE_PARTS` of `forge/sampling.h`. */
export const SAMPLE_PARTS = 64;
