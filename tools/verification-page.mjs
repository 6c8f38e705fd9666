// The section of build/docs/verification.md that `npm run verify:emulator` writes.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const docs = path.join(root, 'build', 'docs', 'verification.md');

/**
 * Ends with one line on stderr.
 *
 * @param {string} message
 * @returns {never}
 */
function fail(message) {
  console.error(`verify-emulator: ${message}`);
  process.exit(1);
}

/** Names of the code objects of a target by their content. */
export function codeObjects(target) {
  const file = path.join(root, 'build', 'kernels', target, 'manifest.json');
  if (!existsSync(file)) fail(`${file} is missing; run "npm run build:kernels -- --target ${target}"`);
  return new Map(JSON.parse(readFileSync(file, 'utf8')).files.map((entry) => [entry.sha256, entry.file]));
}

const HEADING = '## Whole models';
const COLUMNS = [
  'model',
  'target',
  'tokens',
  'largest Δ',
  'accepted',
  'verdict',
  'code objects',
  'wave-instructions',
  'seconds',
  'date',
  'commit',
];
const INTRODUCTION = `${HEADING}

Written by \`npm run verify:emulator\`; do not edit. The executor ran each model on emulated GPUs: its own driver layer,
launch plans and graphs, with the library of the tests in HIP's place and the same emulator below. Δ is that of log
probabilities from llama.cpp's, in nats; for random weights, that of logits from the host device's, root mean square over
that of the logits. Seconds are those of the emulator, with what else the machine did, and say nothing of a GPU.
`;

/** A row as lines of Markdown: its table line, and the code objects behind it. */
function linesOf(row, commit, date) {
  const names = codeObjects(row.target);
  const used = new Map();
  for (const { sha256, launches } of Object.values(row.totals.kernels)) {
    used.set(sha256, (used.get(sha256) ?? 0) + launches);
  }
  const files = [...used]
    .map(([sha256, launches]) => ({ sha256, launches, file: names.get(sha256) ?? 'not in the manifest' }))
    .sort((a, b) => a.file.localeCompare(b.file));
  const together = createHash('sha256')
    .update(files.map(({ sha256 }) => sha256).join())
    .digest('hex')
    .slice(0, 12);
  const cells = [
    row.model,
    row.target,
    row.tokens,
    row.difference.toExponential(1),
    row.bound.toExponential(1),
    row.passed ? 'passed' : 'FAILED',
    `${files.length}, \`${together}\``,
    row.totals.instructions,
    row.seconds,
    date,
    commit,
  ];
  const list = files.map(({ file, sha256, launches }) => `${file} ${sha256} ${launches}`);
  const summary = `<summary>${row.model} on ${row.target}: code objects, their sha256, launches</summary>`;
  return {
    key: `${row.model} | ${row.target}`,
    line: `| ${cells.join(' | ')} |`,
    details: ['<details>', summary, '', '```', ...list, '```', '</details>'].join('\n'),
  };
}

/** Replaces the rows of the same model and target, and keeps the others. */
export function write(rows) {
  const [before, section = ''] = (existsSync(docs) ? readFileSync(docs, 'utf8') : '').split(
    new RegExp(`^(?=${HEADING}$)`, 'm'),
  );
  const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: root, encoding: 'utf8' }).trim();
  const date = new Date().toISOString().slice(0, 10);
  const entries = new Map();
  for (const line of section
    .split('\n')
    .filter((text) => text.startsWith('| '))
    .slice(2)) {
    const [, model, target] = line.split('|').map((cell) => cell.trim());
    entries.set(`${model} | ${target}`, { line, details: '' });
  }
  for (const details of section.match(/^<details>[\s\S]*?^<\/details>$/gm) ?? []) {
    const [, model, target] =
      /<summary>(.*) on (\S+): /.exec(details) ?? fail(`${docs} has details of no model:\n${details}`);
    const entry = entries.get(`${model} | ${target}`);
    if (entry !== undefined) entry.details = details;
  }
  for (const { key, ...entry } of rows.map((row) => linesOf(row, commit, date))) entries.set(key, entry);
  const sorted = [...entries].sort(([a], [b]) => a.localeCompare(b)).map(([, entry]) => entry);
  const table = [COLUMNS, COLUMNS.map(() => '---')].map((cells) => `| ${cells.join(' | ')} |`);
  const lines = [
    INTRODUCTION,
    ...table,
    ...sorted.map(({ line }) => line),
    '',
    ...sorted.map(({ details }) => details),
  ];
  mkdirSync(path.dirname(docs), { recursive: true });
  writeFileSync(docs, `${before.trimEnd()}\n\n${lines.join('\n')}\n`);
}

/** Tells files and targets of which the page has a row that passed, made of the code objects that are there now. */
export function doneBefore() {
  const page = existsSync(docs) ? readFileSync(docs, 'utf8') : '';
  const passed = new Set(
    page
      .split('\n')
      .map((line) => line.split('|').map((cell) => cell.trim()))
      .filter((cells) => cells[6] === 'passed')
      .map(([, model, target]) => `${model} | ${target}`),
  );
  const details = new Map(
    (page.match(/^<details>[\s\S]*?^<\/details>$/gm) ?? []).map((text) => {
      const [, model, target] = /<summary>(.*) on (\S+): /.exec(text) ?? [];
      return /** @type {[string, string]} */ ([`${model} | ${target}`, text]);
    }),
  );
  return (check, target) => {
    const key = `${path.basename(check, '.gguf')} | ${target}`;
    const hashes = (details.get(key) ?? '').match(/\b[0-9a-f]{64}\b/g) ?? [];
    const known = codeObjects(target);
    return passed.has(key) && hashes.length > 0 && hashes.every((hash) => known.has(hash));
  };
}
