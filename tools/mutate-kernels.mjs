// Proves that the kernel tests notice mistakes: plants one at a time in a copy of kernels/, builds the copy for the host and
// for lanes, runs the test that must fail, and prints which target's test failed first. Ends with 1 when a mistake
// survived.
//
//   node tools/mutate-kernels.mjs [--only TEXT] [--tier default|full] [--lanes 32,64]
//
//   --only     only the mistakes whose name contains TEXT
//   --tier     default: what `npm test` builds, without reference kernels. A mistake whose test is of a reference kernel is
//              held against its `defaultTest`; without one it survives.
//              full: what `npm run test:full` builds
//   --lanes    waves of the simulated threads, of the full tier (default: 32)
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { MUTATIONS } from './kernel-mutations.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const { values: options } = parseArgs({
  options: {
    only: { type: 'string', default: '' },
    tier: { type: 'string', default: 'default' },
    lanes: { type: 'string', default: '32' },
  },
});

/** Ends the run with one line on stderr. */
function fail(message) {
  console.error(`mutate-kernels: ${message}`);
  process.exit(1);
}

/** Why a mistake was held against no test, or against one that proves nothing. */
class NotTested extends Error {}

const isFull = options.tier === 'full';
if (!isFull && options.tier !== 'default') fail(`--tier is "${options.tier}"; use default or full`);
const lanes = options.lanes.split(',').map((wave) => `lanes${wave}`);
if (!lanes.every((name) => ['lanes32', 'lanes64'].includes(name)))
  fail(`--lanes is "${options.lanes}"; use 32, 64 or both`);
if (!isFull && options.lanes !== '32') fail('the default tier runs lanes32 alone; add --tier full');

const fromDist = (...parts) => import(pathToFileURL(path.join(root, 'dist', 'executor', ...parts)).href);
const { allContracts } = await fromDist('kernels', 'index.js');
const { launchedOn } = await fromDist('device', 'contract.js');
const filesOf = (contracts) => new Set(contracts.map(({ source }) => path.basename(source)));
/** Files that the default tier builds for the host, and for lanes. */
const hostFiles = filesOf(launchedOn(allContracts, 'host'));
/** And those that the full tier builds for the host: where a block may be one thread. */
const serialFiles = filesOf(allContracts.filter(({ needsBlock }) => !needsBlock));
/** Lanes have no kernel that is for a CPU alone. */
const simulatedFiles = filesOf(allContracts.filter(({ isCpuOnly }) => !isCpuOnly));
const hasLanes = (file) => simulatedFiles.has(file);
const lanesFiles = new Set([...hostFiles, ...filesOf(launchedOn(allContracts, 'portable'))].filter(hasLanes));
const twinFiles = filesOf(allContracts.filter(({ source }) => source.startsWith('twins/')));

/**
 * The test that must fail in this tier, and the files of the kernels that it launches; undefined when there is none.
 *
 * @param {import('./kernel-mutations.mjs').Mutation} mutation
 */
function testOf(mutation) {
  const { defaultTest } = mutation;
  /** @param {import('./kernel-mutations.mjs').Tested} tested */
  const sources = ({ test, with: others = [], launches = [test, ...others] }) => ({
    test,
    files: launches.map((name) => `${name}.hip`),
  });
  const own = sources(mutation);
  if (isFull || !twinFiles.has(`${own.test}.hip`)) return own;
  return defaultTest && sources(defaultTest);
}

/** A copy of the kernels with the mistake in it. */
function plant(folder, mutation) {
  const kernels = path.join(folder, 'kernels');
  cpSync(path.join(root, 'kernels'), kernels, { recursive: true });
  const file = path.join(kernels, mutation.file);
  const before = readFileSync(file, 'utf8');
  if (!before.includes(mutation.from)) throw new NotTested(`${mutation.file} holds no "${mutation.from}"`);
  writeFileSync(file, before.replace(mutation.from, mutation.to));
}

/** Builds the copy: each target with those of the files that the tier has on it. */
function build(folder, files) {
  // The levels differ in what the full tier runs of them; one is enough to tell whether the default tier notices.
  const targets = isFull
    ? [
        ['--twins', '--target', 'host', '--only', files.filter((file) => serialFiles.has(file)).join()],
        ['--twins', '--target', lanes.join(), '--only', files.filter(hasLanes).join()],
      ]
    : [
        ['--native', '--target', 'host', '--only', files.filter((file) => hostFiles.has(file)).join()],
        ['--target', 'lanes32', '--only', files.filter((file) => lanesFiles.has(file)).join()],
      ];
  for (const target of targets.filter((options) => options.at(-1) !== '')) {
    const places = ['--kernels', path.join(folder, 'kernels'), '--output', path.join(folder, 'build')];
    const tool = path.join(root, 'tools', 'build-kernels.mjs');
    const { status, stderr } = spawnSync(process.execPath, [tool, ...target, ...places], { encoding: 'utf8' });
    if (status !== 0) throw new NotTested(`it does not build: ${stderr.match(/error: .*/)?.[0] ?? stderr}`);
  }
}

/** Builds the copy and runs a test. @returns the target whose test failed first; undefined when none did */
function caughtBy(folder, { test, files }) {
  build(folder, files);
  const report = path.join(folder, 'report.json');
  const vitest = path.join(root, 'node_modules', 'vitest', 'vitest.mjs');
  const file = path.join('test', 'kernels', `${test}.test.ts`);
  const unbuilt = ['lanes32', 'lanes64'].filter((name) => !lanes.includes(name));
  const pattern = isFull && unbuilt.length > 0 ? ['--testNamePattern', `^(?!.* on (${unbuilt.join('|')})\\b)`] : [];
  const { status } = spawnSync(
    process.execPath,
    [vitest, 'run', file, '--bail=1', ...pattern, '--reporter=json', `--outputFile=${report}`],
    {
      cwd: root,
      env: { ...process.env, ROCMFORGE_TIER: options.tier, ROCMFORGE_TEST_KERNELS: path.join(folder, 'build') },
      stdio: 'ignore',
    },
  );
  const results = existsSync(report) ? JSON.parse(readFileSync(report, 'utf8')).testResults : [];
  const failed = results.flatMap(({ assertionResults }) => assertionResults.filter((one) => one.status === 'failed'));
  const messages = [
    ...results.map(({ message }) => message),
    ...failed.flatMap(({ failureMessages }) => failureMessages),
  ];
  // A test that fails because its kernel was not built, or that is not there, proves nothing.
  const missing = messages.find((text) => /hold no |is missing; run |No test suite found/.test(text ?? ''));
  if (missing) throw new NotTested(missing.split('\n')[0]);
  if (failed.length === 0) return status === 0 ? undefined : 'the process crashed';
  return failed[0].ancestorTitles[0].split(' on ').at(-1);
}

/** @returns the test that a mistake was held against, and what came of it */
function verdictOf(mutation) {
  const test = testOf(mutation);
  if (test === undefined) return { test: mutation.test, verdict: 'SURVIVED: its test is of a reference kernel' };
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-mutation-'));
  try {
    plant(folder, mutation);
    return { test: test.test, verdict: caughtBy(folder, test) ?? 'SURVIVED' };
  } catch (error) {
    if (!(error instanceof NotTested)) throw error;
    return { test: test.test, verdict: `SURVIVED: ${error.message}` };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const chosen = MUTATIONS.filter(({ name }) => name.includes(options.only));
const width = Math.max(...chosen.map(({ name }) => name.length));
let survived = 0;
for (const mutation of chosen) {
  const { test, verdict } = verdictOf(mutation);
  if (verdict.startsWith('SURVIVED')) survived += 1;
  console.log(`${mutation.name.padEnd(width)}  ${test.padEnd(24)}  ${verdict}`);
}
console.log(`\n${chosen.length - survived} of ${chosen.length} mistakes caught by the ${options.tier} tier`);
process.exit(survived === 0 ? 0 : 1);
