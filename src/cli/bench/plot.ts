/** Points of one kind. */
export interface Series {
  readonly color: string;
  readonly points: readonly (readonly [x: number, y: number])[];
  /** In the legend; absent: it is in none. */
  readonly name?: string;
  readonly dashed?: boolean;
}

/** A value, or a moment, that is pointed out. */
export interface Mark {
  readonly at: number;
  readonly text: string;
  readonly color?: string;
  /** Number of texts to the right of a level, so that those of levels close to each other do not meet. */
  readonly column?: number;
}

export interface Panel {
  readonly title: string;
  readonly xLabel: string;
  readonly series: readonly Series[];
  /** Marks instead of a line. */
  readonly dots?: boolean;
  /** y by powers of ten; values of 0 and below are left out. */
  readonly logY?: boolean;
  /** Limits of the axis of x; default: from 0 to the last point. */
  readonly x?: readonly [from: number, to: number];
  /** Labels of x, if it is no plain number; ticks are then at the positions of `at`. */
  readonly xTicks?: readonly Mark[];
  /** Lines across: values of y. */
  readonly levels?: readonly Mark[];
  /** Lines from top to bottom: values of x. */
  readonly moments?: readonly Mark[];
}

export interface PlotOptions {
  /** Below the title, in small letters: what was run. */
  readonly subtitle?: string;
  /** Panels beside each other; default 1. */
  readonly columns?: number;
}

const PANEL = { width: 800, height: 240, narrow: 540 };
const MARGIN = { left: 70, right: 20, top: 34, bottom: 40 };
const LINE = 18;
const COLUMN = 78;
const CHARACTER = 6.2;

/** An SVG of panels below each other, or in columns. */
export function plot(title: string, panels: readonly Panel[], { subtitle, columns = 1 }: PlotOptions = {}): string {
  const panelWidth = columns === 1 ? PANEL.width : PANEL.narrow;
  const width = columns * panelWidth;
  const lines = wrapped(subtitle ?? '', Math.floor((width - MARGIN.left - MARGIN.right) / CHARACTER));
  const head = 30 + LINE * lines.length;
  const height = head + Math.ceil(panels.length / columns) * PANEL.height;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" font-family="sans-serif" font-size="12">`,
    `<rect width="${width}" height="${height}" fill="white"/>`,
    `<text x="${MARGIN.left}" y="20" font-size="14">${escaped(title)}</text>`,
    ...lines.map((line, i) => `<text x="${MARGIN.left}" y="${38 + LINE * i}" fill="#6b7280">${escaped(line)}</text>`),
    ...panels.map((panel, i) => {
      const [x, y] = [(i % columns) * panelWidth, head + Math.floor(i / columns) * PANEL.height];
      return `<g transform="translate(${x} ${y})">${drawn(panel, panelWidth)}</g>`;
    }),
    '</svg>\n',
  ].join('\n');
}

/** Ticks at 1, 2 or 5 times a power of ten, from 0 or below to the first that is no less than `most`. */
export function roundTicks(least: number, most: number, about = 5): number[] {
  const span = most - least || 1;
  const power = 10 ** Math.floor(Math.log10(span / about));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power * about >= span * 0.999) ?? 10);
  const first = Math.floor(least / step + 1e-9);
  const last = Math.max(first + 1, Math.ceil(most / step - 1e-9));
  // Whole numbers of steps: sums of 0.1 are not round.
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/** Powers of ten around positive values. */
export function logTicks(least: number, most: number): number[] {
  const first = Math.floor(Math.log10(least) + 1e-9);
  const last = Math.max(first + 1, Math.ceil(Math.log10(most) - 1e-9));
  return Array.from({ length: last - first + 1 }, (_, i) => Number((10 ** (first + i)).toPrecision(3)));
}

function drawn(panel: Panel, panelWidth: number): string {
  const { title, xLabel, series, dots, logY, levels = [], moments = [] } = panel;
  const shown = series.map((one) => ({ ...one, points: one.points.filter(([, y]) => isShown(y, logY)) }));
  const points = shown.flatMap((one) => one.points);
  const values = [...points.map(([, y]) => y), ...levels.map(({ at }) => at).filter((at) => isShown(at, logY))];
  const [leastY, mostY] = extent(values, logY ? 1 : 0, 1);
  const yTicks = logY ? logTicks(leastY, mostY) : roundTicks(Math.min(0, leastY), mostY);
  const [fromX, toX] = panel.x ?? [0, Math.max(0, ...points.map(([x]) => x)) || 1];
  const xTicks = panel.xTicks ?? roundTicks(fromX, toX, 6).map((at) => ({ at, text: short(at) }));
  const lastX = panel.xTicks === undefined && panel.x === undefined ? (xTicks.at(-1)?.at ?? toX) : toX;
  const [width, height] = [panelWidth - MARGIN.left - MARGIN.right, PANEL.height - MARGIN.top - MARGIN.bottom];
  const bottom = MARGIN.top + height;
  const scaled = (value: number): number => (logY ? Math.log10(value) : value);
  const [lowest, highest] = [scaled(yTicks[0] as number), scaled(yTicks.at(-1) as number)];
  const x = (value: number): string => (MARGIN.left + ((value - fromX) / (lastX - fromX)) * width).toFixed(1);
  const y = (value: number): string => (bottom - ((scaled(value) - lowest) / (highest - lowest)) * height).toFixed(1);
  const right = panelWidth - MARGIN.right;
  return [
    `<text x="${MARGIN.left}" y="${MARGIN.top - 10}">${escaped(title)}</text>`,
    legend(shown, right),
    ...yTicks.map(
      (at) =>
        `<line x1="${MARGIN.left}" x2="${right}" y1="${y(at)}" y2="${y(at)}" stroke="#e5e7eb"/>` +
        `<text x="${MARGIN.left - 6}" y="${y(at)}" text-anchor="end" dominant-baseline="middle">${short(at)}</text>`,
    ),
    ...xTicks
      .filter(({ at }) => at >= fromX && at <= lastX)
      .map(({ at, text }) => `<text x="${x(at)}" y="${bottom + 16}" text-anchor="middle">${escaped(text)}</text>`),
    ...moments.map(
      ({ at, text, color = '#dc2626' }) =>
        `<line x1="${x(at)}" x2="${x(at)}" y1="${MARGIN.top}" y2="${bottom}" stroke="${color}" stroke-dasharray="3 3"/>` +
        `<text x="${x(at)}" dx="3" y="${MARGIN.top + 10}" font-size="10" fill="${color}">${escaped(text)}</text>`,
    ),
    ...shown.map(({ color, points: own, dashed }) =>
      dots
        ? own.map(([px, py]) => `<circle cx="${x(px)}" cy="${y(py)}" r="1.5" fill="${color}"/>`).join('')
        : `<polyline fill="none" stroke="${color}"${dashed ? ' stroke-dasharray="5 4"' : ''} ` +
          `points="${own.map(([px, py]) => `${x(px)},${y(py)}`).join(' ')}"/>`,
    ),
    ...levels
      .filter(({ at }) => isShown(at, logY))
      .map(
        ({ at, text, color = '#6b7280', column = 0 }) =>
          `<line x1="${MARGIN.left}" x2="${right}" y1="${y(at)}" y2="${y(at)}" stroke="${color}" stroke-dasharray="2 3"/>` +
          `<text x="${right - column * COLUMN}" y="${y(at)}" dy="-3" font-size="10" fill="${color}" text-anchor="end">${escaped(text)}</text>`,
      ),
    `<text x="${right}" y="${bottom + 32}" text-anchor="end">${escaped(xLabel)}</text>`,
  ].join('');
}

/** Names of series in their colours, from the right. */
function legend(series: readonly Series[], right: number): string {
  const named = series.filter(({ name }) => name !== undefined);
  if (named.length === 0) return '';
  const spans = named.map(({ name, color }) => `<tspan fill="${color}">${escaped(`${name}`)}</tspan>`).join('  ');
  return `<text x="${right}" y="${MARGIN.top - 10}" text-anchor="end" xml:space="preserve" font-size="11">${spans}</text>`;
}

const isShown = (value: number, logY: boolean | undefined): boolean => Number.isFinite(value) && (!logY || value > 0);

function extent(values: readonly number[], leastDefault: number, mostDefault: number): [number, number] {
  if (values.length === 0) return [leastDefault, mostDefault];
  const [least, most] = values.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
  ] as [number, number]);
  return [least, most === 0 && least === 0 ? mostDefault : most];
}

/** Lines of at most so many characters, broken at commas and spaces. */
function wrapped(text: string, most: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ').filter((one) => one !== '')) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= most) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}

/** Three digits, with k, M or G for thousands and more. */
function short(value: number): string {
  for (const [unit, size] of [
    ['G', 1e9],
    ['M', 1e6],
    ['k', 1e4],
  ] as const) {
    const scale = unit === 'k' ? 1000 : size;
    if (Math.abs(value) >= size) return `${Number((value / scale).toPrecision(3))}${unit}`;
  }
  return String(Number(value.toPrecision(4)));
}

function escaped(text: string): string {
  return text.replace(/[&<>]/g, (character) => `&#${character.charCodeAt(0)};`);
}
