import { ATTENTION_SPLIT, type AttentionShape } from './attention.js';

/** Memory for the parts of split contexts, and the most rows that are split: more rows fill a device by themselves. */
const PART_BYTES = 512 << 20;
const MOST_SPLIT_ROWS = 256;

/** Rows of a step up to which contexts are split. */
export interface SplitRows {
  /** Limit for rows that are mostly of different slots, and share no keys; 0: never split. */
  readonly rows: number;
  /** Limit for all others. */
  readonly promptRows: number;
}

/** {@link SplitRows.promptRows} where tiles of a prompt occupy few multiprocessors. */
export const PROMPT_SPLIT_ROWS = 64;

/**
 * {@link SplitRows.promptRows}. On an H200, behind 8,000 positions, tiles of 36 rows of a slot are as fast as splits with 8 KV heads, and
 * tiles of 62 rows slower with 2.
 */
export const promptSplitRows = (kvHeads: number): number => (kvHeads >= 8 ? 32 : PROMPT_SPLIT_ROWS);

/** Limits for attention that splits no contexts. */
export const NO_SPLITS: SplitRows = { rows: 0, promptRows: 0 };

/** True if the contexts of a step's rows are split. */
export function splitsContexts(rows: number, tiles: number, most: SplitRows): boolean {
  return rows <= most.rows && (rows <= most.promptRows || 2 * tiles > rows);
}

/** Up to how many rows contexts are split on matrix units, into how many parts, and the f32 that these are. */
export interface ContextParts {
  readonly rows: number;
  readonly splits: number;
  readonly elements: number;
}

export function contextParts(
  { heads, headDim, window }: AttentionShape,
  maxContext: number,
  maxRows: number,
): ContextParts {
  // A window that begins within a split reaches one more.
  const splits = Math.ceil(
    Math.min(maxContext, window === undefined ? Infinity : window + ATTENTION_SPLIT - 1) / ATTENTION_SPLIT,
  );
  const rowElements = heads * splits * (2 + headDim);
  const most = Math.min(MOST_SPLIT_ROWS, maxRows);
  const rows = Math.max(1, Math.min(most, Math.floor(PART_BYTES / (4 * rowElements))));
  return { rows, splits, elements: rows * rowElements };
}
