// Proves that the kernel tests notice mistakes: plants one at a time in a copy of kernels/, builds the copy for the host
// and for lanes, runs the test that ought to fail, and prints what caught it. Ends with 1 when a mistake survived.
//
//   node tools/mutate-kernels.mjs [--only TEXT]      only the mistakes whose name contains TEXT
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { MUTATIONS } from './kernel-mutations.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const { values: options } = parseArgs({ options: { only: { type: 'string', default: '' } } });

/** Ends the run with one line on stderr. */
function fail(message) {
  console.error(`mutate-kernels: ${message}`);
  process.exit(1);
}

/** The kernel files that a mistake's test launches. */
const sourcesOf = ({ test, with: others = [], launches = [test, ...others] }) => launches.map((name) => `${name}.hip`);

/** A copy of the kernels with the mistake in it. */
function plant(folder, mutation) {
  const kernels = path.join(folder, 'kernels');
  cpSync(path.join(root, 'kernels'), kernels, { recursive: true });
  const file = path.join(kernels, mutation.file);
  const before = readFileSync(file, 'utf8');
  if (!before.includes(mutation.from)) fail(`"${mutation.name}": ${mutation.file} holds no "${mutation.from}"`);
  writeFileSync(file, before.replace(mutation.from, mutation.to));
}

/** Builds the copy and runs its test. @returns the targets whose tests failed */
function caughtBy(folder, mutation) {
  const output = path.join(folder, 'build');
  const only = sourcesOf(mutation).join(',');
  const build = [
    '--twins',
    '--only',
    only,
    '--target',
    'host,lanes',
    '--kernels',
    path.join(folder, 'kernels'),
    '--output',
    output,
  ];
  const built = spawnSync(process.execPath, [path.join(root, 'tools', 'build-kernels.mjs'), ...build], {
    encoding: 'utf8',
  });
  if (built.status !== 0) fail(`"${mutation.name}" does not build:\n${built.stderr}`);
  const report = path.join(folder, 'report.json');
  const test = path.join('test', 'kernels', `${mutation.test}.test.ts`);
  const vitest = path.join(root, 'node_modules', 'vitest', 'vitest.mjs');
  const { status } = spawnSync(process.execPath, [vitest, 'run', test, '--reporter=json', `--outputFile=${report}`], {
    cwd: root,
    env: { ...process.env, ROCMFORGE_TEST_KERNELS: output },
    stdio: 'ignore',
  });
  const results = existsSync(report) ? JSON.parse(readFileSync(report, 'utf8')).testResults : [];
  const tests = results.flatMap(({ assertionResults }) => assertionResults);
  const failed = tests.filter((result) => result.status === 'failed');
  // A test that fails because its kernel was not built proves nothing.
  const missing = failed.find(({ failureMessages }) => failureMessages.join().includes('hold no '));
  if (missing) fail(`"${mutation.name}": ${missing.failureMessages[0].split('\n')[0]}`);
  if (failed.length === 0 && status !== 0) return ['the process crashed'];
  return [...new Set(failed.map(({ ancestorTitles }) => ancestorTitles[0].split(' on ').at(-1)))];
}

const chosen = MUTATIONS.filter(({ name }) => name.includes(options.only));
const width = Math.max(...chosen.map(({ name }) => name.length));
let survived = 0;
for (const mutation of chosen) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-mutation-'));
  try {
    plant(folder, mutation);
    const targets = caughtBy(folder, mutation);
    if (targets.length === 0) survived += 1;
    const verdict = targets.length === 0 ? 'SURVIVED' : targets.join(', ');
    console.log(`${mutation.name.padEnd(width)}  ${mutation.test.padEnd(24)}  ${verdict}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
console.log(`\n${chosen.length - survived} of ${chosen.length} mistakes caught`);
process.exit(survived === 0 ? 0 : 1);
