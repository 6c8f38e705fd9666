// Before `npm pack`: builds the code objects of every AMD target, so that the package holds them. With --list it then packs
// without writing, prints the sizes, and ends with 1 when a code object is missing or the package is too large.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const AMD_TARGETS = ['gfx90a', 'gfx942', 'gfx1100', 'gfx1101', 'gfx1102', 'gfx1200', 'gfx1201'];
const MOST_BYTES = 20e6;

const list = process.argv.includes('--list');
execFileSync(process.execPath, [path.join(root, 'tools', 'build-kernels.mjs'), '--target', AMD_TARGETS.join()], {
  cwd: root,
  // What npm pack prints on stdout is read by programs.
  stdio: ['ignore', 2, 2],
});
if (!list) process.exit(0);

const text = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
  cwd: root,
  encoding: 'utf8',
  maxBuffer: 1 << 26,
  stdio: ['ignore', 'pipe', 'ignore'],
});
const [{ size, unpackedSize, files }] = JSON.parse(text.slice(text.indexOf('[')));
const packed = new Set(files.map((file) => file.path));
const wanted = AMD_TARGETS.flatMap((target) => {
  const folder = path.join('build', 'kernels', target);
  const manifest = JSON.parse(readFileSync(path.join(root, folder, 'manifest.json'), 'utf8'));
  return [path.join(folder, 'manifest.json'), ...manifest.files.map(({ file }) => path.join(folder, file))];
});
const missing = wanted.filter((file) => !packed.has(file));
const megabytes = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;
for (const file of missing) console.error(`pack: the package holds no ${file}`);
console.log(
  `pack: ${wanted.length - missing.length} of ${wanted.length} files of ${AMD_TARGETS.length} AMD targets, ` +
    `${megabytes(size)} packed, ${megabytes(unpackedSize)} unpacked, at most ${megabytes(MOST_BYTES)}`,
);
if (size > MOST_BYTES) console.error('pack: the package is too large');
process.exit(missing.length === 0 && size <= MOST_BYTES ? 0 : 1);
