import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { MetricRow, MetricRows } from '../shared/metric-table.js';
import { TokenHistogram } from './token-histogram.js';

type Labels = Readonly<Record<string, string | number>>;
/** Labels, and the values of the metrics that have a series with them. */
export type Series<R> = readonly [labels: Labels, values: { readonly [K in keyof R]?: number | undefined }];

const CLASSES = { counter: Counter, gauge: Gauge, histogram: Histogram, 'histogram of tokens': TokenHistogram };

/** Metrics of rows of the table. */
export type RegisteredMetrics<R extends MetricRows> = {
  readonly [K in keyof R]: InstanceType<(typeof CLASSES)[R[K]['kind']]>;
};

/** prom-client’s description of a row’s metric. */
function configurationOf({ name, help, labels, buckets }: MetricRow, registry: Registry, hasSeveralModels: boolean) {
  return {
    name: `rocmforge_${name}`,
    help,
    labelNames: labels.flatMap((label) => (label.endsWith('?') && !hasSeveralModels ? [] : [label.replace('?', '')])),
    registers: [registry],
    ...(buckets !== undefined && { buckets: [...buckets] }),
  };
}

/**
 * Registers metrics to which values are added as they occur.
 *
 * @param collect of some counters: adds what was counted elsewhere since the last scrape
 */
export function registerMetrics<R extends MetricRows>(
  registry: Registry,
  rows: R,
  hasSeveralModels: boolean,
  collect: Partial<Record<keyof R, (this: Counter) => void>> = {},
): RegisteredMetrics<R> {
  const metrics = Object.entries(rows).map(([key, row]) => {
    const configuration = { ...configurationOf(row, registry, hasSeveralModels), collect: collect[key] };
    return [key, new CLASSES[row.kind](configuration as never)];
  });
  return Object.fromEntries(metrics) as RegisteredMetrics<R>;
}

/**
 * Registers counters and gauges whose values are read once per scrape.
 *
 * @param read all series; one that it leaves out does not exist any more
 */
export function watchMetrics<R extends MetricRows>(
  registry: Registry,
  rows: R,
  hasSeveralModels: boolean,
  read: () => readonly Series<R>[] | Promise<readonly Series<R>[]>,
): void {
  let latest: ReturnType<typeof read> | undefined;
  const readOnce = (): ReturnType<typeof read> => {
    // A registry begins to collect all of its metrics in one turn.
    if (latest === undefined)
      queueMicrotask(() => {
        latest = undefined;
      });
    latest ??= read();
    return latest;
  };
  for (const [key, row] of Object.entries(rows)) {
    const Kind = row.kind === 'counter' ? Counter : Gauge;
    new Kind({
      ...configurationOf(row, registry, hasSeveralModels),
      async collect() {
        const series = await readOnce();
        this.reset();
        for (const [labels, { [key]: value }] of series) if (value !== undefined) this.inc(labels, value);
      },
    });
  }
}
