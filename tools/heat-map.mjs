// A heat map of ratios as SVG, for docs/evidence.

const ROW = 26;
const COLUMN = 74;
const NAMES = 150;
const TOP = 84;

/**
 * Color of a ratio: red below 1, from yellow at 1 to green at 3 and above.
 *
 * @param {number} ratio
 */
function colorOf(ratio) {
  if (ratio < 1) return '#f87171';
  const hue = 50 + 90 * Math.min(1, Math.log(ratio) / Math.log(3));
  return `hsl(${Math.round(hue)} 70% 72%)`;
}

/** @param {string} text */
const escaped = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

/**
 * @param {{ title: string, subtitle: string, columns: readonly string[], rows: readonly { name: string, ratios: readonly (number | undefined)[] }[] }} map
 * a ratio is undefined where there is no such cell
 * @returns {string} SVG, of one size
 */
export function heatMap({ title, subtitle, columns, rows }) {
  const [width, height] = [NAMES + COLUMN * columns.length + 16, TOP + ROW * rows.length + 16];
  const text = (/** @type {number} */ x, /** @type {number} */ y, /** @type {string} */ given, more = '') =>
    `<text x="${x}" y="${y}" ${more}>${escaped(given)}</text>`;
  const head = columns.map((column, i) =>
    text(NAMES + COLUMN * (i + 0.5), TOP - 10, column, 'text-anchor="middle" font-size="12"'),
  );
  const cells = rows.flatMap(({ name, ratios }, row) => [
    text(NAMES - 10, TOP + ROW * row + 18, name, 'text-anchor="end" font-size="13"'),
    ...ratios.flatMap((ratio, i) => {
      if (ratio === undefined) return [];
      const [x, y] = [NAMES + COLUMN * i, TOP + ROW * row];
      return [
        `<rect x="${x + 1}" y="${y + 1}" width="${COLUMN - 2}" height="${ROW - 2}" rx="3" fill="${colorOf(ratio)}"/>`,
        text(x + COLUMN / 2, y + 18, ratio.toFixed(2), 'text-anchor="middle" font-size="13" fill="#111827"'),
      ];
    }),
  ]);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif">`,
    `<rect width="${width}" height="${height}" fill="#ffffff"/>`,
    text(16, 26, title, 'font-size="16" font-weight="600" fill="#111827"'),
    text(16, 46, subtitle, 'font-size="11" fill="#4b5563"'),
    ...head,
    ...cells,
    '</svg>',
    '',
  ].join('\n');
}

/** Columns of the grid, and the cells of the recorded table that go there: some shapes have shorter contexts. */
const COLUMNS = /** @type {const} */ ([
  ['prompt 512', ['prefill 512']],
  ['2,048', ['prefill 2048']],
  ['8,192', ['prefill 8192', 'prefill 7900', 'prefill 3700']],
  ['32,000', ['prefill 32000']],
  ['decode 512', ['decode behind 512']],
  ['8,192', ['decode behind 8192', 'decode behind 7900', 'decode behind 3700']],
  ['32,000', ['decode behind 32000']],
  ['8 streams', ['8 streams']],
  ['64 streams', ['64 streams']],
]);

/**
 * The grid of docs/evidence/gpu-speed.md, from docs/evidence/data/grid.json.
 *
 * @param {{ date: string, commit: string, card: string, shapes: Record<string, Record<string, readonly [ours: number, theirs: number]>> }} grid
 */
export function gridMap({ date, commit, card, shapes }) {
  const ratioOf = (/** @type {readonly [number, number] | undefined} */ rates) => rates && rates[0] / rates[1];
  return heatMap({
    title: 'Rates, in times llama.cpp’s on the same card',
    subtitle: `${date}, ${card}, ${commit}; Q4_K_M, gpt-oss in MXFP4; 8,192: gemma-2 7,900, olmo-2 3,700`,
    columns: COLUMNS.map(([name]) => name),
    rows: Object.entries(shapes).map(([name, cells]) => ({
      name,
      ratios: COLUMNS.map(([, names]) =>
        ratioOf(names.map((cell) => cells[cell]).find((rates) => rates !== undefined)),
      ),
    })),
  });
}
