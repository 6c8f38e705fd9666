// Builds deploy/Dockerfile where no registry of images can be reached, and tells a story in the image: by buildah's chroot isolation,
// on a base that debootstrap makes and that is imported under the base's name. Needs root, buildah and debootstrap.
//
//   node tools/try-image.mjs [--root FOLDER] [--package FILE.tgz] [--store FOLDER]
//
//   --root     a Debian of debootstrap's minbase; default: one of trixie is made
//   --package  default: the newest rocmforge-*.tgz here
//   --store    where images are kept, to go on from; default: a folder that is removed
//
// Prints what holds, a line each, and ends with 1 when something does not.
import { execFileSync, spawnSync } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const { values: options } = parseArgs({
  options: { root: { type: 'string' }, package: { type: 'string' }, store: { type: 'string' } },
});
const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-image-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
const NOBODY = '65534';
const BASE = 'localhost/debian:trixie';
const IMAGE = 'localhost/rocmforge';
/** Path of this machine's certificates for a registry in the build. */
const CERTIFICATES = '/opt/extra-ca.pem';
const HIP = '/usr/lib/x86_64-linux-gnu/libamdhip64.so.5';

const say = (message) => console.log(`try-image: ${message}`);

/**
 * Ends with one line on stderr.
 *
 * @param {string} message
 * @returns {never}
 */
function fail(message) {
  console.error(`try-image: ${message}`);
  process.exit(1);
}

function newestPackage() {
  const [newest] = readdirSync(root)
    .filter((name) => /^rocmforge-.*\.tgz$/.test(name))
    .sort((a, b) => statSync(path.join(root, b)).mtimeMs - statSync(path.join(root, a)).mtimeMs);
  if (newest === undefined) fail('there is no package; run "npm pack", or name one with --package');
  return path.join(root, newest);
}

const store = options.store ?? path.join(folder, 'store');
const common = ['--root', path.join(store, 'images'), '--runroot', path.join(store, 'run'), '--storage-driver', 'vfs'];

/** Runs buildah. @returns what it printed on stdout */
function buildah(...args) {
  const { status, stdout, stderr } = spawnSync('buildah', [...common, ...args], {
    encoding: 'utf8',
    maxBuffer: 1 << 26,
  });
  if (status !== 0)
    fail(`buildah ${args.join(' ')} ended with ${status}\n${stdout.slice(-2000)}${stderr.slice(-4000)}`);
  return stdout;
}

function importBase() {
  if (buildah('images', '--json').includes(BASE)) return;
  const system = options.root ?? path.join(folder, 'base');
  if (!existsSync(path.join(system, 'bin'))) {
    execFileSync('debootstrap', ['--variant=minbase', 'trixie', system], { stdio: ['ignore', 'ignore', 'inherit'] });
  }
  const container = buildah('from', 'scratch').trim();
  buildah('add', '--quiet', container, system, '/');
  buildah('commit', '--quiet', container, BASE);
  buildah('rm', container);
}

/** Access of the build to a registry from here; no part of the image. */
function wayToRegistry() {
  const certificates = process.env.NODE_EXTRA_CA_CERTS;
  if (certificates === undefined) return [];
  const settings = path.join(folder, 'npmrc');
  writeFileSync(settings, `cafile=${CERTIFICATES}\n`);
  return ['--volume', `${certificates}:${CERTIFICATES}:ro`, '--volume', `${settings}:/root/.npmrc:ro`];
}

importBase();
const context = path.join(folder, 'context');
mkdirSync(context);
copyFileSync(options.package ?? newestPackage(), path.join(context, 'rocmforge-trial.tgz'));
copyFileSync(path.join(root, '.dockerignore'), path.join(context, '.dockerignore'));
cpSync(path.join(root, 'deploy'), path.join(context, 'deploy'), { recursive: true });
const began = performance.now();
buildah(
  ...['bud', '--isolation', 'chroot', '--pull-never', '--build-arg', `BASE=${BASE}`, ...wayToRegistry()],
  ...['-f', path.join(context, 'deploy', 'Dockerfile'), '-t', IMAGE, context],
);
const [{ size }] = JSON.parse(buildah('images', '--json', IMAGE));
say(`the image is built by chroot isolation in ${((performance.now() - began) / 1000).toFixed(0)} s: ${size}`);

const container = buildah('from', '--pull-never', IMAGE).trim();
const inImage = (...command) => buildah('run', '--isolation', 'chroot', container, '--', ...command);
const shell = (script) => inImage('sh', '-c', script);
/** @type {[what: string, holds: () => boolean][]} */
const CHECKS = [
  ['it runs as nobody', () => inImage('id').startsWith(`uid=${NOBODY}(nobody) gid=${NOBODY}(nogroup)`)],
  [
    'nobody owns what may be written, and nothing else',
    () => {
      const owned = shell(`find / -xdev -user ${NOBODY} -not -path "/proc/*" -not -path "/dev/*" 2>/dev/null || true`);
      return owned.trim().split('\n').sort().join() === '/run/rocmforge,/var/cache/rocmforge,/var/lib/rocmforge';
    },
  ],
  ['the demo streams in it', () => /fox/.test(inImage('rocmforge', 'demo', '--device', 'host'))],
  ['AMD’s library is in it with all that it needs', () => !/not found/.test(inImage('ldd', HIP))],
  [
    'doctor opens AMD’s library, and finds no card',
    () => /^HIP runtime .*hipErrorNoDevice/m.test(shell('rocmforge doctor || true')),
  ],
  [
    'it holds no compiler, no npm and no Python',
    () => shell('command -v gcc g++ cc make npm python3 || true').trim() === '',
  ],
];
let failed = 0;
for (const [what, holds] of CHECKS) {
  const passed = holds();
  if (!passed) failed += 1;
  say(`${passed ? 'ok  ' : 'NOT '} ${what}`);
}
buildah('rm', container);
process.exit(failed === 0 ? 0 : 1);
