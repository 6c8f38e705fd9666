import type { ServerState } from './server-store.js';

/** The server at one time. */
export interface Sample {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly generatedTokens: number;
  /** Since the sample before. */
  readonly tokensPerSecond: number;
  readonly running: number;
  readonly waiting: number;
  /** KV cache use of the fullest replica, 0 to 1. */
  readonly kvUsage: number;
  readonly recoveries: number;
  readonly recoverySeconds: number;
}

/** A recovery that was seen: executors that were lost in one interval share its duration. */
export interface SeenRecovery {
  readonly at: number;
  readonly count: number;
  /** On average. */
  readonly seconds: number;
}

export interface RateHistory {
  readonly samples: readonly Sample[];
  readonly recoveries: readonly SeenRecovery[];
}

/** Samples that are kept: five minutes at two seconds. */
const MOST_SAMPLES = 150;
const MOST_RECOVERIES = 20;

/** A history with another sample. After a restart of the server, whose totals begin anew, the rate is 0 once. */
export function sampled({ samples, recoveries }: RateHistory, { models }: ServerState, at: number): RateHistory {
  const sum = (read: (model: ServerState['models'][number]) => number) =>
    models.reduce((total, model) => total + read(model), 0);
  const replicas = models.flatMap((model) => model.replicas);
  const last = samples.at(-1);
  const totals = {
    generatedTokens: sum((model) => model.generated_tokens),
    recoveries: sum((model) => model.recoveries),
    recoverySeconds: sum((model) => model.recovery_seconds),
  };
  const seconds = last === undefined ? 0 : (at - last.at) / 1000;
  const generated = last === undefined ? 0 : totals.generatedTokens - last.generatedTokens;
  const sample: Sample = {
    ...totals,
    at,
    tokensPerSecond: seconds > 0 && generated > 0 ? generated / seconds : 0,
    running: replicas.reduce((total, { running }) => total + running, 0),
    waiting: replicas.reduce((total, { waiting }) => total + waiting, 0),
    kvUsage: Math.max(0, ...replicas.map(({ kv_usage }) => kv_usage)),
  };
  const count = last === undefined ? 0 : totals.recoveries - last.recoveries;
  const seen: readonly SeenRecovery[] =
    last === undefined || count <= 0
      ? []
      : [{ at, count, seconds: (totals.recoverySeconds - last.recoverySeconds) / count }];
  return {
    samples: [...samples, sample].slice(-MOST_SAMPLES),
    recoveries: [...recoveries, ...seen].slice(-MOST_RECOVERIES),
  };
}
