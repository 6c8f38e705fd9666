import type { RequestRecord } from './load.js';

const WIDTH = 800;
const PANEL = 240;
const MARGIN = { left: 70, right: 20, top: 34, bottom: 40 };
const TICKS = 5;

export interface Series {
  readonly color: string;
  readonly points: readonly (readonly [x: number, y: number])[];
}

export interface Panel {
  readonly title: string;
  readonly xLabel: string;
  readonly series: readonly Series[];
  /** Marks instead of a line. */
  readonly dots?: boolean;
}

/** An SVG of a load: tokens a second and times to first token over the run, and the distribution of gaps. */
export function loadPlot(records: readonly RequestRecord[], title: string): string {
  const ended = records.filter(({ error }) => error === '');
  const panels: Panel[] = [
    {
      title: 'tokens a second (requests ended in each second)',
      xLabel: 's',
      series: [{ color: '#2563eb', points: perSecond(ended) }],
    },
    {
      title: 'time to first token, ms',
      xLabel: 's at which the request was sent',
      dots: true,
      series: [
        {
          color: '#dc2626',
          points: ended.map(({ startedAt, firstTokenAt }) => [startedAt / 1000, firstTokenAt - startedAt]),
        },
      ],
    },
    {
      title: 'between chunks, ms, by share of all gaps',
      xLabel: '%',
      series: [{ color: '#059669', points: distribution(ended.flatMap(({ gapsMs }) => gapsMs)) }],
    },
  ];
  return plot(title, panels);
}

/** An SVG of panels below each other. */
export function plot(title: string, panels: readonly Panel[]): string {
  const height = 30 + panels.length * PANEL;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" font-family="sans-serif" font-size="12">`,
    `<rect width="${WIDTH}" height="${height}" fill="white"/>`,
    `<text x="${MARGIN.left}" y="20" font-size="14">${escaped(title)}</text>`,
    ...panels.map((panel, i) => `<g transform="translate(0 ${30 + i * PANEL})">${drawn(panel)}</g>`),
    '</svg>\n',
  ].join('\n');
}

/** Tokens of the requests that ended in each second. */
function perSecond(records: readonly RequestRecord[]): [number, number][] {
  const seconds = Math.ceil(Math.max(0, ...records.map(({ endedAt }) => endedAt)) / 1000);
  const tokens = new Array<number>(seconds).fill(0);
  for (const { endedAt, tokens: count } of records) tokens[Math.floor(endedAt / 1000)]! += count;
  return tokens.map((count, second) => [second + 0.5, count]);
}

/** The value below which each of a hundred shares lies. */
function distribution(values: readonly number[]): [number, number][] {
  const sorted = Float64Array.from(values).sort();
  if (sorted.length === 0) return [];
  return Array.from({ length: 101 }, (_, percent) => [
    percent,
    sorted[Math.min(sorted.length - 1, Math.floor((percent / 100) * sorted.length))] as number,
  ]);
}

function drawn({ title, xLabel, series, dots }: Panel): string {
  const points = series.flatMap((one) => one.points);
  const mostX = points.reduce((most, [x]) => Math.max(most, x), 0) || 1;
  const mostY = points.reduce((most, [, y]) => Math.max(most, y), 0) || 1;
  const [width, height] = [WIDTH - MARGIN.left - MARGIN.right, PANEL - MARGIN.top - MARGIN.bottom];
  const x = (value: number): string => (MARGIN.left + (value / mostX) * width).toFixed(1);
  const y = (value: number): string => (MARGIN.top + height - (value / mostY) * height).toFixed(1);
  const grid = Array.from({ length: TICKS + 1 }, (_, i) => {
    const [atX, atY] = [(mostX * i) / TICKS, (mostY * i) / TICKS];
    return (
      `<line x1="${MARGIN.left}" x2="${WIDTH - MARGIN.right}" y1="${y(atY)}" y2="${y(atY)}" stroke="#e5e7eb"/>` +
      `<text x="${MARGIN.left - 6}" y="${y(atY)}" text-anchor="end" dominant-baseline="middle">${short(atY)}</text>` +
      `<text x="${x(atX)}" y="${MARGIN.top + height + 16}" text-anchor="middle">${short(atX)}</text>`
    );
  });
  const lines = series.map(({ color, points: own }) =>
    dots
      ? own.map(([px, py]) => `<circle cx="${x(px)}" cy="${y(py)}" r="1.5" fill="${color}"/>`).join('')
      : `<polyline fill="none" stroke="${color}" points="${own.map(([px, py]) => `${x(px)},${y(py)}`).join(' ')}"/>`,
  );
  return [
    `<text x="${MARGIN.left}" y="${MARGIN.top - 10}">${escaped(title)}</text>`,
    ...grid,
    ...lines,
    `<text x="${WIDTH - MARGIN.right}" y="${MARGIN.top + height + 32}" text-anchor="end">${escaped(xLabel)}</text>`,
  ].join('');
}

function short(value: number): string {
  return value >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
}

function escaped(text: string): string {
  return text.replace(/[&<>]/g, (character) => `&#${character.charCodeAt(0)};`);
}
