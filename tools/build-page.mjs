// Builds the chat page of the HTTP server: src/page/ into dist/page/, files whose names have a hash of their content, compressed.
// --list prints their sizes.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const from = path.join(root, 'src', 'page');
const to = path.join(root, 'dist', 'page');
/** Bytes that a first load transfers: the document and what it names. */
const MOST_FIRST_LOAD = 150_000;
/** Bytes of all files. */
const MOST_BYTES = 400_000;

/** @type {Map<string, string | Uint8Array>} */
const files = new Map();

/**
 * @param {string} name
 * @param {string | Uint8Array} content
 * @returns {string} the name with a hash of the content
 */
function addHashed(name, content) {
  const hash = createHash('sha256').update(content).digest('hex').slice(0, 10);
  const { name: stem, ext } = path.parse(name);
  const hashed = `${stem}-${hash}${ext}`;
  files.set(hashed, content);
  return hashed;
}

const { outputFiles, metafile } = await build({
  entryPoints: [path.join(from, 'main.tsx'), path.join(from, 'style.css')],
  bundle: true,
  splitting: true,
  minify: true,
  format: 'esm',
  target: ['es2022', 'chrome109', 'firefox115', 'safari16'],
  jsx: 'automatic',
  jsxImportSource: 'preact',
  alias: { react: 'preact/compat', 'react-dom': 'preact/compat' },
  outdir: to,
  entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]',
  legalComments: 'none',
  metafile: true,
  write: false,
  logLevel: 'warning',
});
for (const { path: file, contents } of outputFiles) files.set(path.basename(file), contents);
const entry = (/** @type {RegExp} */ name) => [...files.keys()].find((file) => name.test(file)) ?? '';
const script = entry(/^main-.*\.js$/);
const style = entry(/^style-.*\.css$/);
const icon = addHashed('icon.svg', readFileSync(path.join(from, 'icon.svg')));
const licenses = addHashed('licenses.txt', licenseTexts());
const html = readFileSync(path.join(from, 'index.html'), 'utf8')
  .replace('ICON', icon)
  .replace('STYLE', style)
  .replace('SCRIPT', script)
  .replace('LICENSES', licenses);
files.set('index.html', html);

mkdirSync(to, { recursive: true });
const sizes = new Map();
for (const [name, content] of files) {
  const gzipped = gzipSync(content, { level: 9 });
  sizes.set(name, gzipped.length);
  const file = path.join(to, `${name}.gz`);
  // A server may be reading a file that is as it should be.
  if (!existsSync(file) || !readFileSync(file).equals(gzipped)) writeFileSync(file, gzipped);
}
const kept = new Set([...files.keys()].map((name) => `${name}.gz`));
for (const name of readdirSync(to)) if (!kept.has(name)) rmSync(path.join(to, name), { recursive: true });

const sum = (/** @type {readonly string[]} */ names) =>
  names.reduce((total, name) => total + (sizes.get(name) ?? 0), 0);
const first = sum(['index.html', ...firstScripts(), style, icon]);
const all = sum([...files.keys()]);
if (process.argv.includes('--list')) for (const [name, size] of sizes) console.log(String(size).padStart(8), name);
console.log(`page: ${first} bytes for the first load, ${all} in all, compressed`);
if (first > MOST_FIRST_LOAD || all > MOST_BYTES) {
  console.error(`page: at most ${MOST_FIRST_LOAD} bytes for the first load and ${MOST_BYTES} in all`);
  process.exit(1);
}

/** The script and the chunks that it imports at once. */
function firstScripts() {
  const outputs = Object.entries(metafile.outputs).map(([file, output]) => ({ name: path.basename(file), output }));
  const names = new Set([script]);
  for (const name of names) {
    const { output } = outputs.find((one) => one.name === name) ?? {};
    for (const { path: file, kind } of output?.imports ?? []) {
      if (kind === 'import-statement') names.add(path.basename(file));
    }
  }
  return [...names];
}

/** The licenses of the bundled packages. */
function licenseTexts() {
  const folders = Object.keys(metafile.inputs).flatMap((file) => {
    const [, name] = /(?:^|\/)node_modules\/((?:@[^/]+\/)?[^/]+)\/(?!.*\/node_modules\/)/.exec(file) ?? [];
    return name === undefined ? [] : [name];
  });
  return [...new Set(folders)]
    .sort()
    .map((name) => {
      const folder = path.join(root, 'node_modules', name);
      const { version, license } = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'));
      const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
      const text = file === undefined ? '' : readFileSync(path.join(folder, file), 'utf8');
      return `${name} ${version} (${license})\n\n${text.trim()}\n`;
    })
    .join(`\n${'-'.repeat(80)}\n\n`);
}
