/**
 * All metrics of a gateway, in the order of `/metrics`; their names have the prefix `rocmforge_`. A metric is one line here and the
 * code that counts: fields of `counters`, the exporter (`src/gateway/metrics.ts`) and `docs/metrics.md` follow from its line.
 */

/** A label with `?` exists only on gateways with several models. */
type Label = 'model_name?' | 'model_name' | 'outcome' | 'reason' | 'api' | 'limit' | 'replica' | 'device' | InfoLabel;
type InfoLabel = 'version' | 'node_version' | 'block_size' | 'num_gpu_blocks';

/** A row of the table. */
export interface MetricRow {
  /** `histogram of tokens`: an observation costs little, see `TokenHistogram`. */
  readonly kind: 'counter' | 'gauge' | 'histogram' | 'histogram of tokens';
  /** Without the prefix; a counter's ends with `_total`, others with their unit. */
  readonly name: string;
  readonly help: string;
  readonly labels: readonly Label[];
  /** Object of a replica whose `counters` have a field of the row's key. */
  readonly by?: 'scheduler' | 'engine';
  /** Upper bounds of a histogram, rising. */
  readonly buckets?: readonly number[];
}

/** Rows by the names of their values in code. */
export type MetricRows = Readonly<Record<string, MetricRow>>;

const counter = (name: string, help: string, ...labels: Label[]) => ({ kind: 'counter', name, help, labels }) as const;
const gauge = (name: string, help: string, ...labels: Label[]) => ({ kind: 'gauge', name, help, labels }) as const;
const histogram = (name: string, help: string, buckets: readonly number[], ...labels: Label[]) =>
  ({ kind: 'histogram', name, help, labels, buckets }) as const;

/** Per model: with a single one there is no label. */
const ofModel = (name: string, help: string) => gauge(name, help, 'model_name?');
const totalOfModel = (name: string, help: string) => counter(name, help, 'model_name?');
const byScheduler = (name: string, help: string) => ({ ...totalOfModel(name, help), by: 'scheduler' }) as const;
const byEngine = (name: string, help: string) => ({ ...totalOfModel(name, help), by: 'engine' }) as const;

/** In seconds. */
const LATENCY_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120];
const TOKEN_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6, 1.2, 2.5];

export const BUILD_METRICS = {
  build: gauge('build_info', 'Version of the package and of Node.js, as labels', 'version', 'node_version'),
} satisfies MetricRows;

/** Values of models and of their replicas, read at each scrape. */
export const MODEL_METRICS = {
  running: ofModel('num_requests_running', 'Sequences with a slot'),
  waiting: ofModel('num_requests_waiting', 'Sequences that wait for a slot'),
  kvUsage: ofModel(
    'kv_cache_usage_perc',
    'Fraction of the KV blocks in use, 0 to 1; with several kinds of blocks, of the fuller kind',
  ),
  stateSnapshots: ofModel('state_snapshots', 'Snapshots of recurrent state'),
  keptStateSnapshots: ofModel('state_snapshots_kept', 'Snapshots of recurrent state that new prompts can reuse'),
  cacheConfig: gauge(
    'cache_config_info',
    'Tokens of a KV block and number of blocks, as labels',
    'model_name?',
    'block_size',
    'num_gpu_blocks',
  ),
  preemptions: byScheduler('num_preemptions_total', 'Sequences preempted because others needed their KV blocks'),
  slotPreemptions: byScheduler(
    'slot_preemptions_total',
    'Sequences preempted from their slot for another client, or because their client stopped reading or their constraint is still translated',
  ),
  cachedTokens: byScheduler('prefix_cache_hit_tokens_total', 'Prompt tokens found in the prefix cache'),
  steps: byScheduler('steps_total', 'Steps planned'),
  drafts: byScheduler('spec_decode_num_drafts_total', 'Sequences in steps that had draft tokens, once for each step'),
  draftTokens: byScheduler('spec_decode_num_draft_tokens_total', 'Draft tokens computed'),
  acceptedDraftTokens: byScheduler('spec_decode_num_accepted_tokens_total', 'Draft tokens accepted'),
  predictedTokens: byScheduler(
    'spec_decode_num_mtp_draft_tokens_total',
    'Draft tokens of the multi-token-prediction block',
  ),
  acceptedPredictedTokens: byScheduler(
    'spec_decode_num_mtp_accepted_tokens_total',
    'Draft tokens of the multi-token-prediction block accepted',
  ),
  maskMisses: byScheduler('mask_misses_total', 'Tokens computed again because their mask had not come in time'),
  discardedTokens: byScheduler('discarded_tokens_total', 'Tokens computed ahead and discarded'),
  serving: ofModel('executor_up', 'Executors that serve'),
  spares: ofModel('executor_spares', 'Spare executors that have loaded the model'),
  missingSpares: ofModel('executor_spares_missing', 'Replicas with --spare that can have no spare executor'),
  executors: ofModel('executor_epoch', 'Executors started or tried at their address so far, without spares that wait'),
  stepAge: ofModel('executor_last_step_age_seconds', 'Age of the step under way, 0 when there is none'),
  replayed: byEngine('requests_replayed_total', 'Sequences resumed after the loss of an executor'),
  keptTokens: byScheduler(
    'recovery_kept_tokens_total',
    'Tokens of resumed sequences whose keys and values were still in memory',
  ),
  recomputedTokens: byScheduler(
    'recovery_recomputed_tokens_total',
    'Tokens of resumed sequences that were computed again',
  ),
  restoredWeights: byEngine(
    'recovery_restored_weights_total',
    'Allocations of weights found damaged after the loss of an executor and loaded again',
  ),
  damagedBlocks: byScheduler(
    'recovery_damaged_blocks_total',
    'KV blocks and snapshots found damaged after a fault of an executor and computed again',
  ),
  savedBytes: ofModel('kv_host_memory_bytes', 'Memory of the host with KV blocks and snapshots of an unloaded model'),
  restoredBlocks: byScheduler(
    'kv_host_restored_blocks_total',
    'KV blocks and snapshots copied back from memory of the host when an unloaded model was loaded',
  ),
  quarantined: byEngine('requests_quarantined_total', 'Requests that made the executor fault alone'),
  nonFinite: byEngine('requests_non_finite_total', 'Requests ended because their logits were NaN or infinite'),
  saturatedActivations: byEngine(
    'saturated_activations_total',
    'Activations beyond the range of f16, replaced by its largest number',
  ),
  engineBytes: ofModel('grammar_engine_bytes', 'Memory of token tries, automata and masks that all grammars share'),
  grammarBytes: ofModel('grammar_cache_bytes', 'Memory of grammars kept for later requests'),
  grammars: ofModel('grammar_cache_entries', 'Grammars kept for later requests'),
  evictions: totalOfModel('grammar_cache_evictions_total', 'Grammars evicted from the cache'),
  isUnloaded: ofModel('model_unloaded', '1 while the model is unloaded, when idle, by a request or by an operator'),
  isUnloadedByOperator: ofModel(
    'model_unloaded_by_operator',
    '1 while an operator has unloaded the model: requests are rejected until an operator loads it',
  ),
  waitsForLoad: ofModel('model_waits_for_load', '1 while the model waits for another to be unloaded'),
  loads: totalOfModel('model_loads_total', 'Executors that loaded the model for a request or by an operator'),
  unloads: totalOfModel('model_unloads_total', 'Executors ended because the model was idle, or by an admin request'),
} satisfies MetricRows;

/** Events of models’ requests and executors. */
export const REQUEST_METRICS = {
  promptTokens: counter('prompt_tokens_total', 'Tokens of prompts', 'model_name'),
  generationTokens: counter('generation_tokens_total', 'Tokens generated', 'model_name'),
  requests: counter('request_total', 'Requests by how they ended', 'model_name', 'outcome'),
  restarts: counter(
    'executor_restarts_total',
    'Executors lost, by reason: hung, connection, answer, out_of_memory, replaced, a signal or exit_CODE',
    'model_name?',
    'reason',
  ),
  queueTime: histogram(
    'request_queue_time_seconds',
    'From a sequence’s arrival to its slot, a load that it waited for included',
    LATENCY_BUCKETS,
    'model_name',
  ),
  timeToFirstToken: histogram(
    'time_to_first_token_seconds',
    'From request to first token',
    LATENCY_BUCKETS,
    'model_name',
  ),
  interTokenLatency: {
    ...histogram('inter_token_latency_seconds', 'Between tokens', TOKEN_BUCKETS, 'model_name'),
    kind: 'histogram of tokens',
  },
  requestLatency: histogram(
    'e2e_request_latency_seconds',
    'From arrival of a request to its end; requests that ended before they had a slot do not count',
    LATENCY_BUCKETS,
    'model_name',
  ),
  recovery: histogram(
    'executor_recovery_seconds',
    'From an executor’s loss until another serves and all that it interrupted has made a step, ended or moved',
    LATENCY_BUCKETS,
    'model_name?',
  ),
} satisfies MetricRows;

/** Rejected calls and requests. */
export const REJECTION_METRICS = {
  credentials: counter('credentials_refused_total', 'Calls rejected for their credential, by reason', 'reason'),
  rateLimits: counter(
    'rate_limited_total',
    'Calls rejected because their principal reached a limit, by limit',
    'limit',
  ),
  httpErrors: counter('http_errors_total', 'HTTP requests answered with an error, by reason', 'reason'),
  rejected: counter(
    'rejected_requests_total',
    'Requests rejected before they ran, by API and reason; the log has a line for each, up to a rate',
    'api',
    'reason',
  ),
} satisfies MetricRows;

/** Connections and calls that the guards of an API turned away. */
export const API_METRICS = {
  refusedConnections: counter('connections_refused_total', 'Connections rejected because too many were open', 'api'),
  heldConnections: counter(
    'connections_held_total',
    'Connections rejected for earlier violations of their peer, a second after they opened',
    'api',
  ),
  closedConnections: counter(
    'connections_closed_total',
    'Connections closed to make room for others, or because they were silent',
    'api',
  ),
  floods: counter('connection_floods_total', 'Connections closed to new streams for floods of pings or resets', 'api'),
  failedHandshakes: counter('tls_handshakes_failed_total', 'TLS handshakes that failed', 'api'),
  refused: counter('calls_refused_total', 'Calls rejected because they were too many or too large', 'api'),
  slowSenders: counter('slow_senders_total', 'Requests cancelled because they did not arrive in time', 'api'),
  slowReaders: counter('slow_readers_total', 'Responses cancelled because their client stopped reading', 'api'),
} satisfies MetricRows;

export const EXECUTOR_METRICS = {
  unusable: gauge(
    'executor_unusable',
    '1 while no executor of the replica is usable, by reason; absent while one serves',
    'model_name?',
    'replica',
    'reason',
  ),
} satisfies MetricRows;

/** Diagnostics that this process could not write. */
export const LOSS_METRICS = {
  droppedLines: counter('log_lines_dropped_total', 'Log lines dropped because their reader is too slow'),
  lostFaults: counter('faults_not_kept_total', 'Executor faults that could not be written to the state folder'),
} satisfies MetricRows;

const ofDevice = (name: string, help: string) => gauge(`device_${name}`, help, 'model_name?', 'replica', 'device');

/** Sensors of devices, absent if a device does not report them. */
export const DEVICE_METRICS = {
  info: ofDevice('info', 'Device of the replica, in its label `device`'),
  usedBytes: ofDevice('memory_used_bytes', 'Device memory in use by the executor'),
  totalBytes: ofDevice('memory_total_bytes', 'Total device memory'),
  temperatureC: ofDevice('temperature_celsius', 'Temperature of the hottest sensor that the driver reports'),
  powerW: ofDevice('power_watts', 'Power draw of the device'),
  clockHz: ofDevice('clock_hertz', 'Clock of the compute units'),
  throttled: ofDevice('throttled', '1 while heat or power limits the clocks'),
} satisfies MetricRows;

export const KEPT_STREAM_METRICS = {
  streams: gauge('kept_streams', 'Streams kept for clients that reconnect'),
  bytes: gauge('kept_stream_bytes', 'Memory of kept streams'),
  dropped: counter('kept_streams_dropped_total', 'Kept streams dropped because there was no room'),
} satisfies MetricRows;

/** With `--otlp-endpoint`. */
export const SPAN_METRICS = {
  ended: counter('spans_total', 'Spans of requests'),
  exported: counter('spans_exported_total', 'Spans that the collector accepted'),
} satisfies MetricRows;

/** The whole table, in the order of `/metrics`. */
export const METRICS: readonly MetricRow[] = [
  ...[BUILD_METRICS, MODEL_METRICS, REQUEST_METRICS, REJECTION_METRICS, API_METRICS, EXECUTOR_METRICS],
  ...[LOSS_METRICS, DEVICE_METRICS, KEPT_STREAM_METRICS, SPAN_METRICS],
].flatMap((rows) => Object.values<MetricRow>(rows));
