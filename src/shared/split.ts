/** How a model may be split over several devices: between layers, all of them in one process. */
export const SPLIT_KINDS = ['layer'] as const;
export type SplitKind = (typeof SPLIT_KINDS)[number];
