/** Embedding of a text by its tokens' hidden states: that of the last or the first one, the mean of all, or each (`none`). */
export type Pooling = 'last' | 'cls' | 'mean' | 'none';
export const POOLINGS: readonly Pooling[] = ['last', 'cls', 'mean', 'none'];
