import type { AttentionSplits } from '../layers/paged-attention.js';
import type { Limits } from '../model/limits.js';
import {
  COUNT_ADJUSTED,
  COUNT_DRAWN,
  COUNT_DRAWS,
  COUNT_FILTERED,
  COUNT_SAMPLES,
  COUNT_SLICES,
  COUNT_SPLIT_ROWS,
  COUNT_SPLITS,
  COUNT_TILES,
  COUNT_TOKENS,
  COUNT_TOLD,
  STEP_COUNTS,
  settle,
} from '../model/step-counts.js';

/** The most graphs of one plan: each takes a few milliseconds of the load, and memory. */
const MOST_GRAPHS = 160;

/**
 * Sampling of a step's tokens: the largest logit of each row, drawn with filters, or any. The first two are for
 * steps of few rows, where what is launched for nothing is a part of what they take.
 */
const MODES = {
  largest: [],
  drawn: [COUNT_DRAWN, COUNT_FILTERED],
  any: [COUNT_DRAWN, COUNT_FILTERED, COUNT_ADJUSTED, COUNT_TOLD],
} as const;
export type SamplingMode = keyof typeof MODES;
const FEW_ROWS = 8;

/** A kind of step that a graph is captured for. */
export interface GraphBucket {
  readonly rows: number;
  /** Splits of each context; 0 if none is split. */
  readonly splits: number;
  readonly mode: SamplingMode;
}

/**
 * The sizes of steps that come again and again, one token of each of some sequences, for each of which a GPU has a graph:
 * powers of two of rows, and the most rows there may be, times powers of two of splits. Where that makes more than 160
 * graphs, splits go up by 4, 8, ... instead. A step runs as the least graph that holds it.
 */
export class GraphBuckets {
  private readonly rows: readonly number[];
  private readonly splits: readonly number[];

  /** @param split how attention splits contexts; undefined where it does not */
  constructor(
    { maxSequences, isEncoder = false }: Pick<Limits, 'maxSequences' | 'isEncoder'>,
    private readonly split: Pick<AttentionSplits, 'rows' | 'most'> | undefined,
  ) {
    // No step of an encoder has one token of each of its sequences.
    this.rows = isEncoder ? [] : powersUpTo(maxSequences, 2);
    let factor = 2;
    while (this.count(powersUpTo(split?.most ?? 1, factor)) > MOST_GRAPHS) factor *= 2;
    this.splits = powersUpTo(split?.most ?? 1, factor);
  }

  /** Every bucket, smallest first. */
  all(): readonly GraphBucket[] {
    return this.rows.flatMap((rows) =>
      this.splitsOf(rows).flatMap((splits) => modesOf(rows).map((mode) => ({ rows, splits, mode }))),
    );
  }

  /** The least bucket that holds a step of at most as many rows and splits as there may be. */
  of(rows: number, splits: number, mode: SamplingMode): GraphBucket {
    const least = leastFrom(this.rows, rows);
    const modes = modesOf(least);
    return { rows: least, splits: leastFrom(this.splitsOf(least), splits), mode: modes.includes(mode) ? mode : 'any' };
  }

  private splitsOf(rows: number): readonly number[] {
    return this.split !== undefined && rows <= this.split.rows ? this.splits : [0];
  }

  private count(splits: readonly number[]): number {
    const isSplit = (rows: number): boolean => this.split !== undefined && rows <= this.split.rows;
    return this.rows.reduce((sum, rows) => sum + modesOf(rows).length * (isSplit(rows) ? splits.length : 1), 0);
  }
}

const ALL_MODES = Object.keys(MODES) as readonly SamplingMode[];
const modesOf = (rows: number): readonly SamplingMode[] => (rows <= FEW_ROWS ? ALL_MODES : ['any']);

/** The first way in which all is launched that a step's rows need. */
export function samplingMode(counts: Int32Array): SamplingMode {
  const needed = MODES.any.filter((index) => counts[index] !== 0);
  const holds = (mode: SamplingMode): boolean =>
    needed.every((index) => (MODES[mode] as readonly number[]).includes(index));
  return ALL_MODES.find(holds) as SamplingMode;
}

/** The counts of a step of that kind. */
export function countsOf({ rows, splits, mode }: GraphBucket): Int32Array {
  const counts = new Int32Array(STEP_COUNTS);
  for (const index of [COUNT_TOKENS, COUNT_SAMPLES, COUNT_DRAWS, COUNT_SLICES]) counts[index] = rows;
  counts[splits === 0 ? COUNT_TILES : COUNT_SPLIT_ROWS] = rows;
  counts[COUNT_SPLITS] = splits;
  for (const index of MODES[mode]) counts[index] = 1;
  settle(counts);
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
