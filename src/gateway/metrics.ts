import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { ErrorReason } from '../shared/errors.js';
import { packageVersion } from '../shared/package.js';
import { EventLoopDelay } from './event-loop-delay.js';
import { type CountedModel, type ModelObserver, observeModels, watchModels } from './model-metrics.js';
import { CompletionTotals } from './request/completion-totals.js';
import type { LimitName } from './trust/limits.js';
import type { TrustObserver } from './trust/trust.js';

/** prom-client's own timer, which its metric of the event loop needs; that metric is replaced, so it never has to fire. */
const NO_LOOP_SAMPLES_MS = 2 ** 31 - 1;

type Api = 'grpc' | 'http';

interface CallCounts {
  readonly refused?: number;
  readonly slowSenders?: number;
  readonly slowReaders?: number;
}

/** Counters of a server's guards. */
export interface GuardCounts {
  readonly connections: { readonly refused: number; readonly closed: number; readonly held: number };
  /** Each guard's of what it bounds. */
  readonly calls: readonly CallCounts[];
  /** Counters for HTTP/2 alone. */
  readonly floods?: { readonly floods: number };
  failedHandshakes(): number;
}

/** Prometheus metrics, named as vLLM's users know them, with the prefix `rocmforge_`. */
export class Metrics implements TrustObserver {
  readonly registry = new Registry();
  readonly completions = new CompletionTotals();
  private readonly credentials: Counter<'reason'>;
  private readonly rateLimits: Counter<'limit'>;
  private readonly httpErrors: Counter<'reason'>;
  private readonly rejected: Counter<'api' | 'reason'>;
  private readonly apis: (readonly [Api, GuardCounts])[] = [];

  /** Observers of the models, in their order. */
  readonly models: readonly ModelObserver[];

  /** @param models all that there are */
  constructor(models: readonly CountedModel[], loopDelay: Pick<EventLoopDelay, 'read'> = new EventLoopDelay()) {
    const registers = [this.registry];
    collectDefaultMetrics({ register: this.registry, eventLoopMonitoringPrecision: NO_LOOP_SAMPLES_MS });
    this.watchEventLoop(loopDelay);
    new Gauge({
      name: 'rocmforge_build_info',
      help: 'Version of the package and of Node.js, as labels',
      labelNames: ['version', 'node_version'],
      registers,
    }).set({ version: packageVersion, node_version: process.version }, 1);
    watchModels(this.registry, models);
    this.models = observeModels(this.registry, models, this.completions);
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
      help: 'Requests that the HTTP server answered with an error, by why',
      labelNames: ['reason'],
      registers,
    });
    this.rejected = new Counter({
      name: 'rocmforge_rejected_requests_total',
      help: 'Requests rejected before they ran, by API and reason; the log has a line for each, up to a rate',
      labelNames: ['api', 'reason'],
      registers,
    });
  }

  /** Delays of the event loop between two scrapes, under the names that dashboards for Node.js use. */
  private watchEventLoop(loopDelay: Pick<EventLoopDelay, 'read'>): void {
    const { registry } = this;
    const names = ['', '_min', '_max', '_mean', '_stddev', '_p50', '_p90', '_p99'];
    for (const name of names) registry.removeSingleMetric(`nodejs_eventloop_lag${name}_seconds`);
    const gauge = (name: string, help: string, collect?: () => void): Gauge =>
      new Gauge({
        name: `nodejs_eventloop_lag_${name}_seconds`,
        help,
        registers: [registry],
        ...(collect !== undefined && { collect }),
      });
    // Registered first: metrics are collected in this order.
    const max = gauge('max', 'Longest turn of the event loop since the last scrape', () => {
      const delays = loopDelay.read();
      max.set(delays.max);
      mean.set(delays.mean);
      stddev.set(delays.stddev);
      p50.set(delays.p50);
      p90.set(delays.p90);
      p99.set(delays.p99);
    });
    const mean = gauge('mean', 'Mean delay of an event, at any moment since the last scrape');
    const stddev = gauge('stddev', 'Standard deviation of the delay');
    const p50 = gauge('p50', 'Median of the delay');
    const p90 = gauge('p90', '90th percentile of the delay');
    const p99 = gauge('p99', '99th percentile of the delay');
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

  /** Tells of streams that are kept for clients that come back. */
  watchKeptStreams(read: () => { readonly streams: number; readonly bytes: number; readonly dropped: number }): void {
    const gauge = (name: string, help: string, count: () => number): void => {
      new Gauge({
        name: `rocmforge_${name}`,
        help,
        registers: [this.registry],
        collect() {
          this.set(count());
        },
      });
    };
    gauge('kept_streams', 'Streams kept for clients that come back', () => read().streams);
    gauge('kept_stream_bytes', 'Memory of kept streams', () => read().bytes);
    this.total('kept_streams_dropped_total', 'Kept streams dropped because there was no room', () => read().dropped);
  }

  /** Tells of what a server turns away before a request knows of it. */
  watchApi(api: Api, guards: GuardCounts): void {
    if (this.apis.push([api, guards]) > 1) return;
    const total = (name: string, help: string, read: (guards: GuardCounts) => number): void => {
      const { apis, registry } = this;
      new Counter({
        name: `rocmforge_${name}`,
        help,
        labelNames: ['api'],
        registers: [registry],
        collect() {
          this.reset();
          for (const [each, counted] of apis) this.inc({ api: each }, read(counted));
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
      'Connections closed to new streams for floods of pings or resets',
      ({ floods }) => floods?.floods ?? 0,
    );
    total('tls_handshakes_failed_total', 'TLS handshakes that failed', (guards) => guards.failedHandshakes());
    total('calls_refused_total', 'Calls refused as too many or too large', sum('refused'));
    total('slow_senders_total', 'Requests given up that did not arrive', sum('slowSenders'));
    total('slow_readers_total', 'Responses cancelled because their client stopped reading', sum('slowReaders'));
  }

  /** Tells of what this process could not write down. */
  watchLosses(droppedLines: () => number, lostFaults: () => number): void {
    this.total('log_lines_dropped_total', 'Log lines dropped because their reader is too slow', droppedLines);
    this.total('faults_not_kept_total', 'Executor faults that the state folder did not take', lostFaults);
  }

  /** The HTTP server has answered with an error. */
  httpRefused(reason: ErrorReason): void {
    this.httpErrors.inc({ reason });
  }

  credentialRefused(reason: ErrorReason): void {
    this.credentials.inc({ reason });
  }

  requestRejected(api: Api, reason: ErrorReason): void {
    this.rejected.inc({ api, reason });
  }

  rateLimited(limit: LimitName): void {
    this.rateLimits.inc({ limit });
  }
}
