// Installs the package where there is no compiler, and generates text with what came of it. Prints how long the installation
// took; ends with 1 when something was compiled, or did not run.
//
//   node tools/try-package.mjs [--node FILE] [--package FILE.tgz] [--spoil]
//
//   --node     the Node.js to install with; default: this one
//   --package  default: packed from this tree, whose build must be there
//   --spoil    make the package's host kernels unusable first: then they must be compiled, and a compiler be on the PATH
import { execFileSync, spawnSync } from 'node:child_process';
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { childSeconds } from './kernel-objects.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const { values: options } = parseArgs({
  options: {
    node: { type: 'string', default: process.execPath },
    package: { type: 'string' },
    spoil: { type: 'boolean', default: false },
  },
});
const COMPILERS = ['g++', 'gcc', 'c++', 'cc', 'clang', 'clang++', 'make', 'python3'];
const MOST_SECONDS = 20;

/**
 * Ends with one line on stderr.
 *
 * @param {string} message
 * @returns {never}
 */
function fail(message) {
  console.error(`try-package: ${message}`);
  process.exit(1);
}

const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-package-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));

/** The tree as it is built, as a package. */
function pack() {
  const args = ['pack', '--ignore-scripts', '--silent', '--pack-destination', folder];
  const name =
    execFileSync('npm', args, { cwd: root, encoding: 'utf8' }).trim().split('\n').at(-1) ??
    fail('npm pack named no file');
  return path.join(folder, name);
}

// A PATH that holds node, npm and a shell, and nothing that compiles.
const npm = realpathSync(execFileSync('which', ['npm'], { encoding: 'utf8' }).trim());
const bin = path.join(folder, 'bin');
mkdirSync(bin);
symlinkSync(realpathSync(options.node), path.join(bin, 'node'));
symlinkSync(npm, path.join(bin, 'npm'));
symlinkSync(realpathSync('/bin/sh'), path.join(bin, 'sh'));
const bare = { ...process.env, PATH: bin };
for (const compiler of COMPILERS) {
  if (spawnSync(compiler, ['--version'], { env: bare }).error === undefined) fail(`${compiler} is on the PATH`);
}
for (const name of ['CXX', 'CC', 'npm_config_nodedir']) delete bare[name];

const project = path.join(folder, 'project');
mkdirSync(project);
writeFileSync(path.join(project, 'package.json'), '{ "private": true }\n');
const node = path.join(bin, 'node');
const file = path.resolve(options.package ?? pack());

/** Runs a program of the project in the bare environment. @returns what it printed */
function inProject(env, ...args) {
  const { status, stdout, stderr } = spawnSync(node, args, { cwd: project, env, encoding: 'utf8' });
  if (status !== 0) fail(`${args.slice(0, 3).join(' ')} ended with ${status}\n${stdout}${stderr}`);
  return stdout;
}

const before = childSeconds();
const started = performance.now();
inProject(bare, npm, 'install', '--prefer-offline', '--no-audit', '--no-fund', file);
const seconds = childSeconds() - before;
const installed = path.join(project, 'node_modules', 'rocmforge');
console.log(
  `try-package: installed with no compiler by Node ${execFileSync(node, ['--version'], { encoding: 'utf8' }).trim()} in ` +
    `${((performance.now() - started) / 1000).toFixed(1)} s, ${seconds.toFixed(1)} s of processor time`,
);
if (seconds > MOST_SECONDS) fail(`more than ${MOST_SECONDS} s of processor time`);

/** A generation from the demo model. */
function generate(env) {
  const model = path.join(root, 'models', 'demo.gguf');
  const args = ['generate', '--device', 'host', '--model', model, '--prompt', 'Once upon a time', '--max-tokens', '8'];
  const text = inProject(env, path.join(installed, 'dist', 'cli', 'main.js'), ...args);
  if (text.trim().length === 0) fail('it generates nothing');
  console.log(`try-package: it says ${JSON.stringify(text.trim())}`);
}
generate(bare);

if (options.spoil) {
  const kernels = path.join(installed, 'build', 'kernels', 'host');
  for (const name of readdirSync(kernels))
    if (name.endsWith('.so')) appendFileSync(path.join(kernels, name), 'spoiled');
  inProject(process.env, npm, 'rebuild', 'rocmforge');
  generate(bare);
  console.log('try-package: kernels that did not fit were compiled');
}
