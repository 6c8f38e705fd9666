/** Executors of a model, as the page's server view shows them. */
export interface ReplicaState {
  /** State of its supervisor. */
  readonly state: string;
  readonly device: string;
  /** Executors started so far. */
  readonly executors: number;
  /** Sequences with a slot, sequences that wait for one, and slots. */
  readonly running: number;
  readonly waiting: number;
  readonly slots: number;
  /** Part of the KV blocks in use, 0 to 1. */
  readonly kv_usage: number;
  /** Why no executor serves; empty while one does. */
  readonly problem: string;
}

/** A model, as the page's server view shows it. */
export interface ModelState {
  readonly name: string;
  /** As in the admin API: loaded, loading, unloading, unloaded or failed. */
  readonly state: string;
  readonly replicas: readonly ReplicaState[];
  /** Totals since the start, of which the page computes rates. */
  readonly generated_tokens: number;
  readonly prompt_tokens: number;
  /** Losses of an executor that were recovered from, and their durations (s) in total. */
  readonly recoveries: number;
  readonly recovery_seconds: number;
}

/** State of the server for the page's server view: what `--http-metrics` lets clients see. */
export interface ServerState {
  readonly uptime_seconds: number;
  readonly models: readonly ModelState[];
}
