import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { ErrorReason } from '../shared/errors.js';
import {
  API_METRICS,
  BUILD_METRICS,
  EXECUTOR_METRICS,
  type MetricRows,
  REJECTION_METRICS,
} from '../shared/metric-table.js';
import { packageVersion } from '../shared/package.js';
import type { ReplicaLabels } from './device-metrics.js';
import { EventLoopDelay } from './event-loop-delay.js';
import { type CountedModel, type ModelObserver, observeModels, watchModels } from './model-metrics.js';
import { type RegisteredMetrics, registerMetrics, watchMetrics } from './registered-metrics.js';
import type { Replica } from './replica/replica.js';
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
  private readonly rejections: RegisteredMetrics<typeof REJECTION_METRICS>;
  private readonly apis: (readonly [Api, GuardCounts])[] = [];

  /** Observers of the models, in their order. */
  readonly models: readonly ModelObserver[];

  /** @param models all that there are */
  constructor(models: readonly CountedModel[], loopDelay: Pick<EventLoopDelay, 'read'> = new EventLoopDelay()) {
    collectDefaultMetrics({ register: this.registry, eventLoopMonitoringPrecision: NO_LOOP_SAMPLES_MS });
    this.watchEventLoop(loopDelay);
    const severalModels = models.length > 1;
    registerMetrics(this.registry, BUILD_METRICS, severalModels).build.set(
      { version: packageVersion, node_version: process.version },
      1,
    );
    watchModels(this.registry, models);
    this.models = observeModels(this.registry, models, this.completions);
    this.rejections = registerMetrics(this.registry, REJECTION_METRICS, severalModels);
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

  /** Registers metrics without labels that are counted elsewhere. */
  watch<R extends MetricRows>(rows: R, read: () => Readonly<Record<keyof R, number>>): void {
    watchMetrics(this.registry, rows, false, () => [[{}, read()]]);
  }

  /** Registers what a server turns away before a request knows of it. */
  watchApi(api: Api, guards: GuardCounts): void {
    if (this.apis.push([api, guards]) > 1) return;
    watchMetrics(this.registry, API_METRICS, false, () =>
      this.apis.map(([each, counted]) => [{ api: each }, apiValues(counted)]),
    );
  }

  /**
   * Registers which replicas have no usable executor, and why.
   *
   * @param labels of each of the replicas
   */
  watchExecutors(replicas: readonly Pick<Replica, 'problem'>[], labels: readonly ReplicaLabels[]): void {
    watchMetrics(this.registry, EXECUTOR_METRICS, 'model_name' in (labels[0] ?? {}), () =>
      replicas.flatMap(({ problem }, i) =>
        problem === undefined ? [] : [[{ ...labels[i], reason: problem.reason }, { unusable: 1 }]],
      ),
    );
  }

  /** The HTTP server has answered with an error. */
  httpRefused(reason: ErrorReason): void {
    this.rejections.httpErrors.inc({ reason });
  }

  credentialRefused(reason: ErrorReason): void {
    this.rejections.credentials.inc({ reason });
  }

  requestRejected(api: Api, reason: ErrorReason): void {
    this.rejections.rejected.inc({ api, reason });
  }

  rateLimited(limit: LimitName): void {
    this.rejections.rateLimits.inc({ limit });
  }
}

/** Counts of an API's guards now. */
function apiValues({
  connections,
  calls,
  floods,
  failedHandshakes,
}: GuardCounts): Record<keyof typeof API_METRICS, number> {
  const sum = (name: keyof CallCounts) => calls.reduce((all, counts) => all + (counts[name] ?? 0), 0);
  return {
    refusedConnections: connections.refused,
    heldConnections: connections.held,
    closedConnections: connections.closed,
    floods: floods?.floods ?? 0,
    failedHandshakes: failedHandshakes(),
    refused: sum('refused'),
    slowSenders: sum('slowSenders'),
    slowReaders: sum('slowReaders'),
  };
}
