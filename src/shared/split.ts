/**
 * Split of a model over several devices, all of them in one process: between layers, or each layer into shards that
 * are computed at the same time.
 */
export const SPLIT_KINDS = ['layer', 'tensor'] as const;
export type SplitKind = (typeof SPLIT_KINDS)[number];
