// Records commands at a terminal as an SVG that shows each line when it came.
//
//   node tools/record-session.mjs docs/session.svg 'rocmforge doctor' 'rocmforge verify'
//
// Each command is run by the shell with this checkout's `rocmforge`, in a pseudo-terminal of 100 columns (python3). What is shown is
// what was written, but for colours, names of folders and what a kernel's builder appended to its version.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const [output, ...commands] = process.argv.slice(2);
if (output === undefined || commands.length === 0) {
  console.error('record-session: give a file and commands');
  process.exit(1);
}
const [COLUMNS, LINE, CHARACTER, MARGIN] = [110, 17, 7.5, 14];

const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
symlinkSync(path.join(root, 'dist', 'cli', 'main.js'), path.join(folder, 'rocmforge'));
const env = { ...process.env, PATH: `${folder}:${process.env.PATH}`, NO_COLOR: '1', XDG_STATE_HOME: folder };

const told = (text) =>
  text.replaceAll(folder, '…').replaceAll(root, '…').replaceAll(os.release(), os.release().replace(/-.*/, ''));

/** @returns the lines of a command, each with the second in which it was whole */
function record(command, offset) {
  const started = performance.now();
  const now = () => offset + (performance.now() - started) / 1000;
  /** @type {{ at: number, text: string, isTyped?: boolean }[]} */
  const lines = [{ at: offset, text: `$ ${command}`, isTyped: true }];
  const terminal = path.join(root, 'test', 'support', 'terminal.py');
  const child = spawn('python3', [terminal, '/bin/sh', '-c', command], {
    cwd: root,
    env,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let rest = '';
  const put = (text) => lines.push({ at: now(), text });
  child.stdout.setEncoding('utf8').on('data', (text) => {
    const parts = (rest + told(text)).split(/\r*\n/);
    rest = parts.pop() ?? '';
    for (const part of parts) put(part.slice(part.lastIndexOf('\r') + 1));
  });
  return new Promise((resolve) => {
    child.on('close', (code) => {
      if (rest !== '') put(rest);
      if (code !== 0) put(`(ended with ${code})`);
      resolve({ lines, end: now() + 1 });
    });
  });
}

/**
 * A line in rows of as many columns as the picture has.
 *
 * @param {{ at: number, text: string, isTyped?: boolean }} line
 */
function rowsOf({ text, ...line }) {
  const rows = [];
  let rest = text.replaceAll(/\p{Cc}(\[[\d;?]*[A-Za-z])?/gu, '');
  while (rest.length > COLUMNS) {
    const space = rest.lastIndexOf(' ', COLUMNS);
    const cut = space > COLUMNS / 2 ? space : COLUMNS;
    rows.push({ ...line, text: rest.slice(0, cut) });
    rest = `    ${rest.slice(cut).trimStart()}`;
  }
  return [...rows, { ...line, text: rest }];
}

const lines = [];
let offset = 0.5;
for (const command of commands) {
  const { lines: more, end } = await record(command, offset);
  lines.push(...more, { at: end, text: '' });
  offset = end;
}
const rows = lines.flatMap(rowsOf);
const escaped = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
const [width, height] = [Math.ceil(COLUMNS * CHARACTER + 2 * MARGIN), rows.length * LINE + 2 * MARGIN];
const texts = rows.map(
  ({ at, text, isTyped }, i) =>
    `<text x="${MARGIN}" y="${Math.round(MARGIN + (i + 0.8) * LINE)}"${isTyped ? ' fill="#7ee787"' : ''} xml:space="preserve">${escaped(text)}<set attributeName="visibility" to="hidden" begin="0s" dur="${at.toFixed(2)}s"/></text>`,
);
writeFileSync(
  output,
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12.4" fill="#e6edf3">
<title>${escaped(commands.join('; '))}</title>
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
${texts.filter((text) => !text.includes('preserve"><set')).join('\n')}
</svg>
`,
);
console.error(`record-session: ${rows.length} lines, ${offset.toFixed(1)} s, ${output}`);
