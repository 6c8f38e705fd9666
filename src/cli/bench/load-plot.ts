import type { RequestRecord } from './load.js';
import { type Percentiles, percentiles } from './load-report.js';
import { type Mark, type Panel, plot, type Series } from './plot.js';

/** A load that was offered, and what its clients saw; plain data that survives JSON. */
export interface LoadRun {
  /** Version of the format; another is refused. */
  readonly format: typeof LOAD_RUN_FORMAT;
  /** Model and device. */
  readonly title: string;
  /** Offered load and release, in the words of the command's options. */
  readonly parameters: string;
  readonly records: readonly RequestRecord[];
}

export const LOAD_RUN_FORMAT = 'rocmforge-load-1';

const COLORS = ['#2563eb', '#dc2626'] as const;
const SHARES = [0, 25, 50, 75, 90, 95, 99, 99.9, 100];

/**
 * An SVG of one load, or of two to compare: tokens a second and times to first token over the run, and how the gaps between
 * chunks are distributed, with percentiles as lines.
 *
 * @param runs one, or the newer and the older
 */
export function loadPlot(runs: readonly [LoadRun] | readonly [LoadRun, LoadRun]): string {
  const names = runs.length === 1 ? [undefined] : ['this run', 'the one compared with'];
  const drawn = runs.map((run, i) => {
    const ended = run.records.filter(({ error }) => error === '');
    const look = { color: COLORS[i] as string, name: names[i], dashed: i > 0 };
    const first = ended.map(({ startedAt, firstTokenAt }) => [startedAt / 1000, firstTokenAt - startedAt] as const);
    const gaps = ended.flatMap(({ gapsMs }) => gapsMs);
    const series = (points: Series['points']): Series => ({ ...look, points }) as Series;
    return {
      tokens: series(perSecond(run.records)),
      first: series(first),
      firstLevels: levels(percentiles(first.map(([, ms]) => ms)), look.color, i),
      gaps: series(distribution(gaps)),
      gapLevels: levels(percentiles(gaps), look.color, i),
    };
  });
  const panels: Panel[] = [
    {
      title: 'tokens a second, of whole seconds',
      xLabel: 'seconds of the run',
      series: drawn.map(({ tokens }) => tokens),
    },
    {
      title: 'time to first token, ms',
      xLabel: 'second at which the request was sent',
      dots: true,
      logY: true,
      series: drawn.map(({ first }) => first),
      levels: drawn.flatMap(({ firstLevels }) => firstLevels),
    },
    {
      title: 'gap between chunks, ms, below which a share of all gaps lies',
      xLabel: '% of gaps, stretched to the right',
      logY: true,
      x: [0, stretched(100)],
      xTicks: SHARES.map((share) => ({ at: stretched(share), text: String(share) })),
      series: drawn.map(({ gaps }) => gaps),
      levels: drawn.flatMap(({ gapLevels }) => gapLevels),
    },
  ];
  const [run, other] = runs;
  return plot(run.title, panels, {
    subtitle:
      other === undefined ? run.parameters : `${run.parameters}; compared with ${other.title}, ${other.parameters}`,
  });
}

/** Tokens that came in each whole second, as far as chunks say when: the last second, which is none, is left out. */
function perSecond(records: readonly RequestRecord[]): [number, number][] {
  const seconds = Math.floor(Math.max(0, ...records.map(({ endedAt }) => endedAt || 0)) / 1000);
  const tokens = new Array<number>(seconds).fill(0);
  const add = (at: number, count: number): void => {
    const second = Math.floor(at / 1000);
    if (second < seconds) tokens[second]! += count;
  };
  for (const { firstTokenAt, gapsMs, tokens: count, chunks, error } of records) {
    if (chunks === 0 || error !== '') continue;
    // Tokens of a chunk are not kept one by one: each has its share.
    let at = firstTokenAt;
    add(at, count / chunks);
    for (const gap of gapsMs) {
      at += gap;
      add(at, count / chunks);
    }
  }
  return tokens.map((count, second) => [second + 0.5, count]);
}

/** The value below which each share lies, with the last percents as wide as those before. */
function distribution(values: readonly number[]): [number, number][] {
  const sorted = Float64Array.from(values).sort();
  if (sorted.length === 0) return [];
  const shares = [
    ...Array.from({ length: 99 }, (_, percent) => percent),
    ...Array.from({ length: 10 }, (_, tenth) => 99 + tenth / 10),
    100,
  ];
  return shares.map((share) => [
    stretched(share),
    sorted[Math.min(sorted.length - 1, Math.floor((share / 100) * sorted.length))] as number,
  ]);
}

/** Position of a share: at the number of nines in it, so that the slowest hundredth is seen. */
function stretched(share: number): number {
  return -Math.log10(1.0005 - share / 100);
}

function levels({ p50, p95, p99 }: Percentiles, color: string, run: number): Mark[] {
  return Object.entries({ p99, p95, p50 }).map(([name, at], i, { length }) => ({
    at,
    color,
    column: run * length + i,
    text: `${name} ${at < 10 ? at.toFixed(2) : at.toFixed(0)} ms`,
  }));
}
