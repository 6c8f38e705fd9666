import type { Metric, Registry } from 'prom-client';

/** Labels of one series. */
type Labels = Readonly<Record<string, string>>;

/** Name, help and bounds, as Prometheus has them: https://prometheus.io/docs/instrumenting/exposition_formats/. */
interface HistogramOptions {
  readonly name: string;
  readonly help: string;
  /** Upper bounds, rising; the last bucket has none. */
  readonly buckets: readonly number[];
  readonly registers: readonly Registry[];
}

/** One series of a {@link TokenHistogram}. */
class Series {
  readonly counts: number[];
  sum = 0;

  constructor(
    readonly labels: Labels,
    private readonly buckets: readonly number[],
  ) {
    this.counts = new Array<number>(buckets.length + 1).fill(0);
  }

  observe(value: number): void {
    let bucket = 0;
    while (bucket < this.buckets.length && value > (this.buckets[bucket] as number)) bucket += 1;
    (this.counts[bucket] as number) += 1;
    this.sum += value;
  }
}

/**
 * A histogram of what happens at every token. prom-client's finds its series by its labels' text at each value, which costs a gateway
 * with hundreds of streams more than all else that it counts.
 */
export class TokenHistogram {
  readonly name: string;
  private readonly series: Series[] = [];

  constructor(private readonly options: HistogramOptions) {
    this.name = options.name;
    // A registry reads `name` and `get` of a metric; its type names prom-client's own classes alone.
    for (const registry of options.registers) registry.registerMetric(this as unknown as Metric<string>);
  }

  /** A series, 0 from the start. @returns observes a value of it */
  labels(labels: Labels): (value: number) => void {
    const series = new Series(labels, this.options.buckets);
    this.series.push(series);
    return (value) => series.observe(value);
  }

  /** Read by the registry. */
  get(): unknown {
    const { name, help, buckets } = this.options;
    const values = this.series.flatMap(({ labels, counts, sum }) => {
      let count = 0;
      const cumulative = counts.map((each, i) => {
        count += each;
        return { labels: { le: buckets[i] ?? '+Inf', ...labels }, value: count, metricName: `${name}_bucket` };
      });
      const totals = { sum, count };
      return [
        ...cumulative,
        ...Object.entries(totals).map(([total, value]) => ({ labels, value, metricName: `${name}_${total}` })),
      ];
    });
    return { name, help, type: 'histogram', values, aggregator: 'sum' };
  }
}
