import { type MetricRow, type MetricRows, MODEL_METRICS } from '../../shared/metric-table.js';

/** Keys of the metrics that a scheduler or an engine counts. */
type CountedBy<R, By> = { [K in keyof R]: R[K] extends { readonly by: By } ? K : never }[keyof R];

/** @returns 0 for each metric that `by` counts */
export function zerosOf<R extends MetricRows, By>(rows: R, by: By): Record<CountedBy<R, By>, number> {
  const counted = Object.entries<MetricRow>(rows).filter(([, row]) => row.by === by);
  return Object.fromEntries(counted.map(([name]) => [name, 0])) as Record<CountedBy<R, By>, number>;
}

/** `slices`: sequences in all steps together, which has no metric of its own. */
export const newSchedulerCounters = () => ({ ...zerosOf(MODEL_METRICS, 'scheduler'), slices: 0 });
export const newEngineCounters = () => zerosOf(MODEL_METRICS, 'engine');

/** Gauges and counters of a replica. All of them add up over replicas except the age of the last step. */
export interface ReplicaCounts
  extends Readonly<ReturnType<typeof newSchedulerCounters>>,
    Readonly<ReturnType<typeof newEngineCounters>> {
  /** Sequences with a slot, and sequences that wait for one. */
  readonly running: number;
  readonly waiting: number;
  readonly kvBlocks: number;
  readonly freeKvBlocks: number;
  /** Blocks of layers with a window; 0 where there are none. */
  readonly windowKvBlocks: number;
  readonly freeWindowKvBlocks: number;
  /** Snapshots of recurrent states: those there are, and those of them that can be found. */
  readonly stateSnapshots: number;
  readonly keptStateSnapshots: number;
  /** Bytes of blocks and snapshots that the host's memory has of the unloaded model. */
  readonly savedBytes: number;
  /** 1 while its executor serves, and while it has a spare. */
  readonly serving: number;
  readonly spares: number;
  /** 1 if there should be a spare and cannot be, such as for lack of memory. */
  readonly missingSpares: number;
  /** The most sequences that run at once, and the most rows of one step. */
  readonly slots: number;
  readonly stepTokens: number;
  /** Executors started so far. */
  readonly executors: number;
  /** Milliseconds the step under way has taken; 0 when there is none. */
  readonly stepAgeMs: number;
}

/** Sum of the counts of several replicas. */
export function addUp(sum: ReplicaCounts, counts: ReplicaCounts): ReplicaCounts {
  const added = (Object.keys(sum) as (keyof ReplicaCounts)[]).map((name) => [name, sum[name] + counts[name]]);
  const stepAgeMs = Math.max(sum.stepAgeMs, counts.stepAgeMs);
  return { ...(Object.fromEntries(added) as Record<keyof ReplicaCounts, number>), stepAgeMs };
}
