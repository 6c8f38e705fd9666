// Before `npm pack`: builds the kernels of every AMD target and of the host, and a native addon, that run on other machines, so
// that the package holds them and installing it needs no compiler. With --list it then packs without writing, prints the sizes, and
// ends with 1 when something is missing or the package is too large. --targets gfx1100,gfx942 restricts the AMD targets, for CI.
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { AMD_TARGETS as TARGETS } from './amd-targets.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const { values: options } = parseArgs({
  options: { list: { type: 'boolean', default: false }, targets: { type: 'string' } },
});
const AMD_TARGETS = options.targets?.split(',') ?? TARGETS.map(({ target }) => target);
// Code objects of 16 targets are most of it, about 2 MB each since there are kernels for more sizes of heads and for encoders. A
// limit so that growth is a decision.
const MOST_BYTES = 40e6;

execFileSync(
  process.execPath,
  [path.join(root, 'tools', 'build-kernels.mjs'), '--target', ['host', ...AMD_TARGETS].join()],
  {
    cwd: root,
    // Programs read the stdout of npm pack.
    stdio: ['ignore', 2, 2],
  },
);

/** The files of a target's kernels. */
function filesOf(target) {
  const folder = path.join('build', 'kernels', target);
  const manifest = JSON.parse(readFileSync(path.join(root, folder, 'manifest.json'), 'utf8'));
  return [path.join(folder, 'manifest.json'), ...manifest.files.map(({ file }) => path.join(folder, file))];
}

// glibc of the oldest supported distribution: RHEL 9, Ubuntu 22.04, Debian 12.
const NEWEST_GLIBC = [2, 34];
const ADDON = path.join('prebuilds', 'linux-x64', 'node.napi.glibc.node');
execFileSync('npm', ['run', '-s', 'build:native'], { cwd: root, stdio: ['ignore', 'ignore', 2] });
mkdirSync(path.join(root, path.dirname(ADDON)), { recursive: true });
copyFileSync(path.join(root, 'build', 'Release', 'rocmforge.node'), path.join(root, ADDON));
execFileSync('strip', [path.join(root, ADDON)], { stdio: ['ignore', 2, 2] });
for (const file of [ADDON, ...filesOf('host').filter((name) => name.endsWith('.so'))]) {
  const dynamic = execFileSync('objdump', ['-T', '-p', path.join(root, file)], { encoding: 'utf8' });
  const wants = [...dynamic.matchAll(/GLIBC_(\d+)\.(\d+)/g)].map(([, major, minor]) => [Number(major), Number(minor)]);
  const newest = wants.reduce((a, b) => ((b[0] - a[0] || b[1] - a[1]) > 0 ? b : a), [0, 0]);
  if ((newest[0] - NEWEST_GLIBC[0] || newest[1] - NEWEST_GLIBC[1]) > 0 || /NEEDED\s+libstdc\+\+/.test(dynamic)) {
    console.error(
      `pack: ${file} needs glibc ${newest.join('.')}, or libstdc++; at most ${NEWEST_GLIBC.join('.')} and none`,
    );
    process.exit(1);
  }
  console.error(`pack: ${file} needs glibc ${newest.join('.')}`);
}
if (!options.list) process.exit(0);

const text = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
  cwd: root,
  encoding: 'utf8',
  maxBuffer: 1 << 26,
  stdio: ['ignore', 'pipe', 'ignore'],
});
const [{ size, unpackedSize, files }] = JSON.parse(text.slice(text.indexOf('[')));
const packed = new Set(files.map((file) => file.path));
const OTHERS = [ADDON, path.join('build', 'proto', 'descriptors.binpb'), path.join('dist', 'page', 'index.html.gz')];
const wanted = [...[...AMD_TARGETS, 'host'].flatMap(filesOf), ...OTHERS];
const missing = wanted.filter((file) => !packed.has(file));
const megabytes = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;
for (const file of missing) console.error(`pack: the package holds no ${file}`);
console.log(
  `pack: ${wanted.length - missing.length} of ${wanted.length} files of ${AMD_TARGETS.length} AMD targets, the host and its addon, ` +
    `${megabytes(size)} packed, ${megabytes(unpackedSize)} unpacked, at most ${megabytes(MOST_BYTES)}`,
);
if (size > MOST_BYTES) console.error('pack: the package is too large');
process.exit(missing.length === 0 && size <= MOST_BYTES ? 0 : 1);
