import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { ErrorReason } from '../shared/errors.js';
import { packageVersion } from '../shared/package.js';
import { loadOf } from './replica/load.js';
import type { ReplicaCounts } from './replica/replica.js';
import { CompletionTotals } from './request/completion-totals.js';
import type { CompletionCounts } from './request/generation.js';
import type { RequestObserver } from './request/runner.js';
import type { LimitName } from './trust/limits.js';
import type { TrustObserver } from './trust/trust.js';

const LOOP_SAMPLE_MS = 100;
const LATENCY_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120];
const TOKEN_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6, 1.2, 2.5];

/** Why executors end, as far as it is known beforehand. */
const USUAL_ENDS = ['hung', 'connection', 'SIGKILL', 'SIGSEGV', 'SIGABRT', 'SIGBUS', 'exit_86'];

type Door = 'grpc' | 'http';

interface CallCounts {
  readonly refused?: number;
  readonly slowSenders?: number;
  readonly slowReaders?: number;
}

/** What a door's guards have counted. */
export interface GuardCounts {
  readonly connections: { readonly refused: number; readonly closed: number; readonly held: number };
  /** Each guard's of what it bounds. */
  readonly calls: readonly CallCounts[];
  /** Of HTTP/2 alone. */
  readonly floods?: { readonly floods: number };
  failedHandshakes(): number;
}

/** Prometheus metrics, named as vLLM's users know them, with the prefix `rocmforge_`. */
export class Metrics implements RequestObserver, TrustObserver {
  readonly registry = new Registry();
  readonly completions = new CompletionTotals();
  private readonly promptTokens: Counter.Internal;
  private readonly generationTokens: Counter.Internal;
  private readonly requests: Counter<'model_name' | 'outcome'>;
  private readonly queueTime: Histogram.Internal<'model_name'>;
  private readonly timeToFirstToken: Histogram.Internal<'model_name'>;
  private readonly interTokenLatency: Histogram.Internal<'model_name'>;
  private readonly requestLatency: Histogram.Internal<'model_name'>;
  private readonly restarts: Counter<'reason'>;
  private readonly credentials: Counter<'reason'>;
  private readonly rateLimits: Counter<'limit'>;
  private readonly httpErrors: Counter<'reason'>;
  private readonly recovery: Histogram;
  private readonly doors: (readonly [Door, GuardCounts])[] = [];

  /**
   * @param modelName the `model_name` of all that is counted of requests
   * @param counts read when metrics are asked for, rather than told of each change
   */
  constructor(
    private readonly modelName: string,
    counts: () => ReplicaCounts,
  ) {
    const registers = [this.registry];
    // Each sample of the loop's delay wakes this process: on the host device that takes a core from the kernels for a moment.
    const eventLoopMonitoringPrecision = LOOP_SAMPLE_MS;
    // Under the names that boards for Node know.
    collectDefaultMetrics({ register: this.registry, eventLoopMonitoringPrecision });
    new Gauge({
      name: 'rocmforge_build_info',
      help: 'Version of the package and of Node.js, as labels',
      labelNames: ['version', 'node_version'],
      registers,
    }).set({ version: packageVersion, node_version: process.version }, 1);
    const gauge = (name: string, help: string, read: () => number): void => {
      new Gauge({
        name: `rocmforge_${name}`,
        help,
        registers,
        collect() {
          this.set(read());
        },
      });
    };
    const total = this.total.bind(this);
    const ofModel = { model_name: modelName };
    const labelNames = ['model_name'] as const;
    // With a label a metric is there once it has a value: from the start it is 0.
    const counter = (name: string, help: string) => {
      const counts = new Counter({ name: `rocmforge_${name}`, help, labelNames, registers });
      counts.inc(ofModel, 0);
      return counts.labels(ofModel);
    };
    const histogram = (name: string, help: string, buckets: number[]) => {
      const times = new Histogram({ name: `rocmforge_${name}`, help, labelNames, buckets, registers });
      times.zero(ofModel);
      return times.labels(ofModel);
    };

    gauge('num_requests_running', 'Sequences with a slot', () => counts().running);
    gauge('num_requests_waiting', 'Sequences that wait for a slot', () => counts().waiting);
    gauge(
      'kv_cache_usage_perc',
      'Part of the KV blocks in use, of the kind that is fuller, 0 to 1',
      () => loadOf(counts()).kvUsage,
    );
    gauge('state_snapshots', 'Snapshots of recurrent states that there are', () => counts().stateSnapshots);
    gauge('state_snapshots_kept', 'Snapshots of recurrent states that can be found', () => counts().keptStateSnapshots);
    new Gauge({
      name: 'rocmforge_cache_config_info',
      help: 'Tokens of a KV block and number of blocks, as labels',
      labelNames: ['block_size', 'num_gpu_blocks'],
      registers,
      collect() {
        const { blockTokens, kvBlocks } = loadOf(counts());
        // What another executor had is no more.
        this.reset();
        this.set({ block_size: blockTokens, num_gpu_blocks: kvBlocks }, 1);
      },
    });
    total('num_preemptions_total', 'Sequences that gave up their blocks to others', () => counts().preemptions);
    total(
      'slots_yielded_total',
      'Sequences that gave up their slot to another peer’s, or because nobody read them',
      () => counts().slotsYielded,
    );
    total('prefix_cache_hit_tokens_total', 'Prompt tokens found in the prefix cache', () => counts().cachedTokens);
    total('steps_total', 'Steps planned', () => counts().steps);
    total('spec_decode_num_drafts_total', 'Times that tokens were guessed at', () => counts().drafts);
    total('spec_decode_num_draft_tokens_total', 'Tokens guessed at and computed', () => counts().guesses);
    total('spec_decode_num_accepted_tokens_total', 'Guesses that were right', () => counts().acceptedGuesses);
    total(
      'late_masks_total',
      'Tokens computed again because their mask had not come in time',
      () => counts().lateMasks,
    );
    total('discarded_tokens_total', 'Tokens computed ahead that nobody wanted', () => counts().discardedTokens);
    gauge('executor_up', 'Executors that serve', () => counts().serving);
    gauge('executor_generation', 'Executors started so far', () => counts().executors);
    gauge(
      'executor_last_step_age_seconds',
      'Age of the step under way, 0 when there is none',
      () => counts().stepAgeMs / 1000,
    );
    total('requests_replayed_total', 'Sequences computed again after an executor’s death', () => counts().replayed);
    total('requests_quarantined_total', 'Requests that made the executor fault alone', () => counts().quarantined);
    total(
      'requests_non_finite_total',
      'Requests ended because their logits were NaN or infinite',
      () => counts().nonFinite,
    );
    total(
      'saturated_activations_total',
      'Activations beyond f16’s range, for which its largest number stood',
      () => counts().saturatedActivations,
    );
    this.promptTokens = counter('prompt_tokens_total', 'Tokens of prompts');
    this.generationTokens = counter('generation_tokens_total', 'Tokens generated');
    this.requests = new Counter({
      name: 'rocmforge_request_total',
      help: 'Requests by how they ended',
      labelNames: ['model_name', 'outcome'],
      registers,
    });
    this.restarts = new Counter({
      name: 'rocmforge_executor_restarts_total',
      help: 'Executors that ended or were given up, by why: hung, connection, a signal or exit_CODE',
      labelNames: ['reason'],
      registers,
    });
    // Of a series that begins at 1 nobody sees that it rose.
    for (const reason of USUAL_ENDS) this.restarts.inc({ reason }, 0);
    this.credentials = new Counter({
      name: 'rocmforge_credentials_refused_total',
      help: 'Calls refused for their credential, by why',
      labelNames: ['reason'],
      registers,
    });
    this.rateLimits = new Counter({
      name: 'rocmforge_rate_limited_total',
      help: 'Calls refused because their principal is at a limit, by which',
      labelNames: ['limit'],
      registers,
    });
    this.httpErrors = new Counter({
      name: 'rocmforge_http_errors_total',
      help: 'Requests that the HTTP door answered with an error, by why',
      labelNames: ['reason'],
      registers,
    });
    this.queueTime = histogram('request_queue_time_seconds', 'From a sequence’s arrival to its slot', LATENCY_BUCKETS);
    this.timeToFirstToken = histogram('time_to_first_token_seconds', 'From request to first token', LATENCY_BUCKETS);
    this.interTokenLatency = histogram('inter_token_latency_seconds', 'Between tokens', TOKEN_BUCKETS);
    this.requestLatency = histogram('e2e_request_latency_seconds', 'From request to its end', LATENCY_BUCKETS);
    this.recovery = new Histogram({
      name: 'rocmforge_executor_recovery_seconds',
      help: 'From an executor’s loss to the next step',
      buckets: LATENCY_BUCKETS,
      registers,
    });
  }

  /** Tells of a count that somebody else keeps. */
  total(name: string, help: string, read: () => number): void {
    new Counter({
      name: `rocmforge_${name}`,
      help,
      registers: [this.registry],
      collect() {
        this.reset();
        this.inc(read());
      },
    });
  }

  /** Tells of what a door turns away before a request knows of it. */
  watchDoor(door: Door, guards: GuardCounts): void {
    if (this.doors.push([door, guards]) > 1) return;
    const total = (name: string, help: string, read: (guards: GuardCounts) => number): void => {
      const { doors, registry } = this;
      new Counter({
        name: `rocmforge_${name}`,
        help,
        labelNames: ['door'],
        registers: [registry],
        collect() {
          this.reset();
          for (const [each, counted] of doors) this.inc({ door: each }, read(counted));
        },
      });
    };
    const sum = (name: keyof CallCounts) => (counted: GuardCounts) =>
      counted.calls.reduce((all, counts) => all + (counts[name] ?? 0), 0);
    total('connections_refused_total', 'Connections that found no room', ({ connections }) => connections.refused);
    total(
      'connections_held_total',
      'Connections refused for what their peers did before, a second after they came',
      ({ connections }) => connections.held,
    );
    total(
      'connections_closed_total',
      'Connections closed for others, or for silence',
      ({ connections }) => connections.closed,
    );
    total(
      'connection_floods_total',
      'Connections closed for floods of pings or resets',
      ({ floods }) => floods?.floods ?? 0,
    );
    total('tls_handshakes_failed_total', 'TLS handshakes that failed', (guards) => guards.failedHandshakes());
    total('calls_refused_total', 'Calls refused as too many or too large', sum('refused'));
    total('slow_senders_total', 'Requests given up that did not arrive', sum('slowSenders'));
    total('slow_readers_total', 'Answers given up that nobody read', sum('slowReaders'));
  }

  /** Tells of what this process could not write down. */
  watchLosses(droppedLines: () => number, lostFaults: () => number): void {
    this.total('log_lines_dropped_total', 'Lines of the log that nobody took', droppedLines);
    this.total('faults_not_kept_total', 'Executor faults that the state folder did not take', lostFaults);
  }

  /** The HTTP door has answered with an error. */
  httpRefused(reason: ErrorReason): void {
    this.httpErrors.inc({ reason });
  }

  requestStarted(promptTokens: number): void {
    this.promptTokens.inc(promptTokens);
  }

  /** A sequence was given its first slot. */
  queued(seconds: number): void {
    this.queueTime.observe(seconds);
  }

  firstToken(seconds: number): void {
    this.timeToFirstToken.observe(seconds);
  }

  tokens(count: number, secondsSinceLast: number | undefined): void {
    this.generationTokens.inc(count);
    if (secondsSinceLast !== undefined) this.interTokenLatency.observe(secondsSinceLast);
  }

  completionEnded(counts: CompletionCounts): void {
    this.completions.add(counts);
  }

  /** @param outcome finish reason, error reason or `cancelled` */
  requestEnded(outcome: string, seconds: number): void {
    this.requests.inc({ model_name: this.modelName, outcome });
    this.requestLatency.observe(seconds);
  }

  credentialRefused(reason: ErrorReason): void {
    this.credentials.inc({ reason });
  }

  rateLimited(limit: LimitName): void {
    this.rateLimits.inc({ limit });
  }

  executorLost(reason: string): void {
    this.restarts.inc({ reason });
  }

  executorRecovered(seconds: number): void {
    this.recovery.observe(seconds);
  }
}
