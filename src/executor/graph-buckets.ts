import type { AttentionSplits } from './layers/paged-attention.js';
import type { Limits } from './model/limits.js';
import {
  COUNT_DRAWS,
  COUNT_SAMPLES,
  COUNT_SLICES,
  COUNT_SPLIT_ROWS,
  COUNT_SPLITS,
  COUNT_TILES,
  COUNT_TOKENS,
  STEP_COUNTS,
} from './model/step-counts.js';

/** The most graphs of one plan: each takes a few milliseconds of the load, and memory. */
const MOST_GRAPHS = 100;

/** Rows and splits of a captured graph; 0 splits where contexts are not split. */
export interface GraphBucket {
  readonly rows: number;
  /** Of each context; 0 where none is split. */
  readonly splits: number;
}

/**
 * The sizes of steps that come again and again, one token of each of some sequences, for each of which a GPU has a graph:
 * powers of two of rows, and the most rows there may be, times powers of two of splits. Where that makes more than 100
 * graphs, splits go up by 4, 8, ... instead. A step runs as the least graph that holds it.
 */
export class GraphBuckets {
  private readonly rows: readonly number[];
  private readonly splits: readonly number[];

  /** @param split how attention splits contexts; undefined where it does not */
  constructor(
    { maxSequences }: Pick<Limits, 'maxSequences'>,
    private readonly split: AttentionSplits | undefined,
  ) {
    this.rows = powersUpTo(maxSequences, 2);
    let factor = 2;
    while (this.count(powersUpTo(split?.most ?? 1, factor)) > MOST_GRAPHS) factor *= 2;
    this.splits = powersUpTo(split?.most ?? 1, factor);
  }

  /** Every bucket, smallest first. */
  all(): readonly GraphBucket[] {
    return this.rows.flatMap((rows) => this.splitsOf(rows).map((splits) => ({ rows, splits })));
  }

  /** The least bucket that holds a step of at most as many rows and splits as there may be. */
  of(rows: number, splits: number): GraphBucket {
    const least = leastFrom(this.rows, rows);
    return { rows: least, splits: leastFrom(this.splitsOf(least), splits) };
  }

  private splitsOf(rows: number): readonly number[] {
    return this.split !== undefined && rows <= this.split.rows ? this.splits : [0];
  }

  private count(splits: readonly number[]): number {
    const split = this.rows.filter((rows) => this.split !== undefined && rows <= this.split.rows).length;
    return this.rows.length + split * (splits.length - 1);
  }
}

/** The counts of a step of that size. */
export function countsOf({ rows, splits }: GraphBucket): Int32Array {
  const counts = new Int32Array(STEP_COUNTS);
  for (const index of [COUNT_TOKENS, COUNT_SAMPLES, COUNT_DRAWS, COUNT_SLICES]) counts[index] = rows;
  counts[splits === 0 ? COUNT_TILES : COUNT_SPLIT_ROWS] = rows;
  counts[COUNT_SPLITS] = splits;
  return counts;
}

/** 1, factor, factor², ... below `most`, then `most`. */
function powersUpTo(most: number, factor: number): number[] {
  const powers: number[] = [];
  for (let power = 1; power < most; power *= factor) powers.push(power);
  return [...powers, most];
}

/** The least of rising sizes that is not below n; the largest when all are. */
function leastFrom(sizes: readonly number[], n: number): number {
  return (sizes.find((size) => size >= n) ?? sizes.at(-1)) as number;
}
