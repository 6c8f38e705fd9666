import type { RequestRecord } from './load.js';
import type { MetricsSnapshot } from './prometheus.js';

/** Median and tail of a set of durations, in milliseconds; NaN when there are none. */
export interface Percentiles {
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
}

/** Measurements of the gateway itself, between two readings of its metrics. */
export interface GatewayReport {
  readonly preemptions: number;
  readonly discardedTokens: number;
  readonly meanQueueMs: number;
  /** Processor time of the gateway process for each token it streamed, microseconds. */
  readonly cpuUsPerToken: number;
  /** At the end. */
  readonly residentBytes: number;
}

/** Results of a load. Time to first token is from the request; gaps are between the chunks of one stream. */
export interface LoadReport {
  readonly requests: number;
  readonly failed: Readonly<Record<string, number>>;
  readonly seconds: number;
  readonly requestsPerSecond: number;
  readonly tokensPerSecond: number;
  readonly promptTokensPerSecond: number;
  readonly tokens: number;
  readonly tokensPerChunk: number;
  /** Share of the prompts' tokens that were found in the prefix cache, 0 to 1. */
  readonly cachedShare: number;
  readonly timeToFirstTokenMs: Percentiles;
  readonly interTokenMs: Percentiles;
  readonly requestMs: Percentiles;
  readonly gateway?: GatewayReport;
}

/** Sums records up. `metrics` are two readings of the gateway's own, before and after. */
export function loadReport(
  records: readonly RequestRecord[],
  metrics?: { readonly before: MetricsSnapshot; readonly after: MetricsSnapshot },
): LoadReport {
  const ended = records.filter(({ error }) => error === '');
  const failed: Record<string, number> = {};
  for (const { error } of records) if (error !== '') failed[error] = (failed[error] ?? 0) + 1;
  const seconds = records.reduce((last, { endedAt }) => Math.max(last, endedAt), 0) / 1000;
  const sum = (of: (record: RequestRecord) => number) => ended.reduce((total, record) => total + of(record), 0);
  const promptTokens = sum((record) => record.promptTokens);
  const tokens = sum((record) => record.tokens);
  return {
    requests: ended.length,
    failed,
    seconds,
    requestsPerSecond: ended.length / seconds,
    tokensPerSecond: tokens / seconds,
    promptTokensPerSecond: promptTokens / seconds,
    tokens,
    tokensPerChunk: tokens / sum((record) => record.chunks),
    cachedShare: sum((record) => record.cachedTokens) / promptTokens,
    timeToFirstTokenMs: percentiles(ended.map((record) => record.firstTokenAt - record.startedAt)),
    interTokenMs: percentiles(ended.flatMap((record) => record.gapsMs)),
    requestMs: percentiles(ended.map((record) => record.endedAt - record.startedAt)),
    ...(metrics && { gateway: gatewayReport(metrics.before, metrics.after) }),
  };
}

function gatewayReport(before: MetricsSnapshot, after: MetricsSnapshot): GatewayReport {
  const grown = (name: string): number => after.get(name) - before.get(name);
  const queued = grown('request_queue_time_seconds_count');
  return {
    preemptions: grown('num_preemptions_total'),
    discardedTokens: grown('discarded_tokens_total'),
    meanQueueMs: queued === 0 ? 0 : (1000 * grown('request_queue_time_seconds_sum')) / queued,
    cpuUsPerToken: (1e6 * grown('process_cpu_seconds_total')) / grown('generation_tokens_total'),
    residentBytes: after.get('process_resident_memory_bytes'),
  };
}

/** The values below which half, 95 and 99 of a hundred lie. */
export function percentiles(values: readonly number[]): Percentiles {
  const sorted = Float64Array.from(values).sort();
  const at = (q: number): number => sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? Number.NaN;
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99) };
}

/** The report for people. */
export function formatLoadReport(report: LoadReport): string {
  const ms = (value: number): string => (value < 10 ? value.toFixed(2) : value.toFixed(0));
  const row = (name: string, { p50, p95, p99 }: Percentiles): string[] => [name, ms(p50), ms(p95), ms(p99)];
  const table = [
    ['ms', 'p50', 'p95', 'p99'],
    row('time to first token', report.timeToFirstTokenMs),
    row('between chunks', report.interTokenMs),
    row('whole request', report.requestMs),
  ];
  const failures = Object.entries(report.failed).map(([reason, count]) => `${count} × ${reason}`);
  const { gateway } = report;
  return [
    `${report.requests} requests in ${report.seconds.toFixed(1)} s` +
      `${failures.length > 0 ? `, failed: ${failures.join(', ')}` : ''}`,
    `throughput  ${report.requestsPerSecond.toFixed(2)} requests/s, ${report.tokensPerSecond.toFixed(1)} tokens/s, ` +
      `${report.promptTokensPerSecond.toFixed(1)} prompt tokens/s, ${report.tokensPerChunk.toFixed(2)} tokens a chunk`,
    `cache hits  ${(100 * report.cachedShare).toFixed(1)} % of the prompts' tokens`,
    ...(gateway
      ? [
          `gateway     queue ${ms(gateway.meanQueueMs)} ms (mean), ${gateway.preemptions} preemptions, ` +
            `${gateway.discardedTokens} tokens discarded, ${gateway.cpuUsPerToken.toFixed(1)} µs CPU a token, ` +
            `${(gateway.residentBytes / 2 ** 20).toFixed(0)} MiB`,
        ]
      : []),
    '',
    ...table.map((cells) => cells.map((cell, i) => (i === 0 ? cell.padEnd(22) : cell.padStart(10))).join('')),
    '',
  ].join('\n');
}
