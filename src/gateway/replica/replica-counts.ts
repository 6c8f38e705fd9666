/** Gauges and counters of a replica. All of them add up over replicas except the age of the last step. */
export interface ReplicaCounts {
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
  readonly preemptions: number;
  readonly slotPreemptions: number;
  readonly cachedTokens: number;
  readonly discardedTokens: number;
  /** Positions whose keys and values an executor's successor had, and those that it computed again. */
  readonly keptTokens: number;
  readonly recomputedTokens: number;
  /** Tokens that were computed again because their mask had not come in time. */
  readonly maskMisses: number;
  /** Steps that were planned, and sequences in all of them together. */
  readonly steps: number;
  readonly slices: number;
  /** Times that next tokens were drafted at and computed. */
  readonly drafts: number;
  /** Tokens that were drafted at and computed, and those of them that were right. */
  readonly draftTokens: number;
  readonly acceptedDraftTokens: number;
  /** Those of them that a prediction block has made. */
  readonly predictedTokens: number;
  readonly acceptedPredictedTokens: number;
  readonly replayed: number;
  /** Allocations of weights that were damaged in memory that outlived an executor. */
  readonly restoredWeights: number;
  readonly quarantined: number;
  readonly nonFinite: number;
  /** Activations that f16’s largest number stood for. */
  readonly saturatedActivations: number;
  /** 1 while its executor serves, and while another is on standby. */
  readonly serving: number;
  readonly spares: number;
  /** 1 if one is to be on standby and cannot be, such as for lack of memory. */
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

/** The counts of a scheduler that does not exist yet. */
export const NOTHING_SCHEDULED = {
  preemptions: 0,
  slotPreemptions: 0,
  cachedTokens: 0,
  discardedTokens: 0,
  keptTokens: 0,
  recomputedTokens: 0,
  maskMisses: 0,
  steps: 0,
  slices: 0,
  drafts: 0,
  draftTokens: 0,
  acceptedDraftTokens: 0,
  predictedTokens: 0,
  acceptedPredictedTokens: 0,
};
