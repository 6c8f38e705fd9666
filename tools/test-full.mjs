// Runs the full test tier: every suite of full-test-suites.mjs, one after the other, and appends one line to
// docs/evidence/full-run.md.
//
//   node tools/test-full.mjs [--only NAME,NAME] [--seed N] [--continue] [--fresh] [--list]
//
// A run resumes, on another machine, too: docs/evidence/data/full-run.json keeps what came of each suite. Those that passed on this
// commit with this seed are not run again, unless --fresh is given. With --continue those that passed on an earlier commit are
// not, either, and the line names it. `build` runs once in each checkout. Each suite has a time budget and fails when it is
// exceeded. The seed of generated cases is new for each commit and printed; --seed repeats an earlier one. Logs:
// build/full-run/<suite>.log.
import { execFileSync, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { appendFileSync, existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { SUITES } from './full-test-suites.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const folder = path.join(root, 'build', 'full-run');
const stateFile = path.join(root, 'docs', 'evidence', 'data', 'full-run.json');
/** Holds the commit whose `build` passed in this checkout. */
const builtFile = path.join(folder, 'built');
const evidence = path.join(root, 'docs', 'evidence', 'full-run.md');
/** Seconds by test file: the order in which files start, test/support/slowest-first.ts. */
const durationsFile = path.join(root, 'test', 'durations.json');

const { values: options } = parseArgs({
  options: {
    only: { type: 'string' },
    seed: { type: 'string' },
    continue: { type: 'boolean', default: false },
    fresh: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false },
  },
});

/**
 * Ends the run with one line on stderr.
 *
 * @param {string} message
 * @returns {never}
 */
function fail(message) {
  console.error(`test-full: ${message}`);
  process.exit(1);
}

const machine = `${os.cpus()[0]?.model.replace(/\s+/g, ' ').trim()}, ${os.availableParallelism()} threads`;

/** @param {...string} args */
const git = (...args) => execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim();

/** Keeps how long each test file of the last command took, in the order of names. */
function recordDurations() {
  const measured = path.join(root, 'build', 'test-report', 'durations.json');
  const read = (/** @type {string} */ file) => (existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {});
  /** @type {[string, number][]} */
  const all = Object.entries({ ...read(durationsFile), ...read(measured) });
  const kept = all.filter(([file]) => existsSync(path.join(root, file))).sort(([a], [b]) => (a < b ? -1 : 1));
  writeFileSync(durationsFile, `${JSON.stringify(Object.fromEntries(kept), null, 2)}\n`);
}

/** Files that a run itself changes. */
const RECORDS = [evidence, stateFile, durationsFile].map((file) => `:!${path.relative(root, file)}`);

/** The commit, marked where the working tree has changes other than this run's own records. */
function treeName() {
  const changed = git('status', '--porcelain', '--', '.', ...RECORDS);
  return `${git('rev-parse', '--short=10', 'HEAD')}${changed === '' ? '' : '+changes'}`;
}

/**
 * @typedef {object} Outcome
 * @property {string} tree the commit that it ran on
 * @property {string} date
 * @property {string} machine
 * @property {'passed' | 'failed' | 'skipped'} status
 * @property {number} minutes
 * @property {string} detail
 * @property {{ passed: number, failed: number, skipped: number }} [counts]
 */
/** @typedef {{ tree: string, seed: string, outcomes: Record<string, Outcome> }} State */

/** @returns {State} */
function readState() {
  const tree = treeName();
  /** @type {State | undefined} */
  const kept = existsSync(stateFile) ? JSON.parse(readFileSync(stateFile, 'utf8')) : undefined;
  const isSame = kept !== undefined && kept.tree === tree && !tree.endsWith('+changes');
  const resumes = kept !== undefined && !options.fresh && (isSame || options.continue);
  if (resumes && (options.seed === undefined || options.seed === kept.seed)) return { ...kept, tree };
  return { tree, seed: options.seed ?? String(randomInt(1, 1_000_000_000)), outcomes: {} };
}

/**
 * Runs one command of a suite; its output goes to the suite's log.
 *
 * @param {string} command
 * @param {number} log file descriptor
 * @param {string} seed
 * @param {number} endsAt ms since the epoch
 * @returns {Promise<string | undefined>} why it failed
 */
function runCommand(command, log, seed, endsAt) {
  return new Promise((resolve) => {
    const child = spawn('sh', ['-c', command], {
      cwd: root,
      env: { ...process.env, ROCMFORGE_TIER: 'full', ROCMFORGE_SEED: seed },
      stdio: ['ignore', log, log],
      detached: true,
    });
    const timer = setTimeout(
      () => {
        // The whole process group: vitest has workers, and those have executors.
        if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
      },
      Math.max(0, endsAt - Date.now()),
    );
    child.on('exit', (code, signal) => {
      clearTimeout(timer);
      if (code === 0) resolve(undefined);
      else if (signal === 'SIGKILL' && Date.now() >= endsAt) resolve('exceeded its time budget');
      else resolve(`"${command}" ended with ${signal ?? code}`);
    });
  });
}

/**
 * @param {import('./full-test-suites.mjs').Suite} suite
 * @param {State} state
 * @returns {Promise<Outcome>}
 */
async function runSuite(suite, { tree, seed }) {
  const reason = suite.missing?.();
  const where = { tree, date: new Date().toISOString().slice(0, 10), machine };
  if (reason !== undefined) return { ...where, status: 'skipped', minutes: 0, detail: reason };
  const logFile = path.join(folder, `${suite.name}.log`);
  const log = openSync(logFile, 'w');
  const began = Date.now();
  let failure;
  for (const command of suite.commands) {
    failure = await runCommand(command, log, seed, began + suite.minutes * 60_000);
    if (failure !== undefined) break;
  }
  if (suite.name.startsWith('tests-')) recordDurations();
  const lines = [...readFileSync(logFile, 'utf8').matchAll(/^(\d+) passed, (\d+) failed, (\d+) skipped$/gm)];
  const sum = (/** @type {number} */ group) => lines.reduce((total, line) => total + Number(line[group]), 0);
  return {
    ...where,
    status: failure === undefined ? 'passed' : 'failed',
    minutes: Number(((Date.now() - began) / 60_000).toFixed(1)),
    detail: failure ?? '',
    ...(lines.length > 0 && { counts: { passed: sum(1), failed: sum(2), skipped: sum(3) } }),
  };
}

/** @param {State} state */
function report({ tree, seed, outcomes }) {
  const all = SUITES.map(({ name }) => /** @type {const} */ ([name, outcomes[name]]));
  const counts = { passed: 0, failed: 0, skipped: 0 };
  for (const [, outcome] of all) {
    counts.passed += outcome?.counts?.passed ?? 0;
    counts.failed += outcome?.counts?.failed ?? 0;
    counts.skipped += outcome?.counts?.skipped ?? 0;
  }
  const failed = all.filter(([, outcome]) => outcome?.status === 'failed').map(([name]) => name);
  const skipped = all.flatMap(([name, outcome]) =>
    outcome?.status === 'skipped' ? [`${name} (${outcome.detail})`] : [],
  );
  const earlier = all.flatMap(([name, outcome]) =>
    outcome !== undefined && outcome.tree !== tree ? [`${name} (${outcome.tree})`] : [],
  );
  const minutes = all.reduce((total, [, outcome]) => total + (outcome?.minutes ?? 0), 0);
  if (!existsSync(evidence)) {
    mkdirSync(path.dirname(evidence), { recursive: true });
    writeFileSync(
      evidence,
      '# Runs of the full test tier\n\nWritten by `npm run test:full`: one line for each complete run.\n\n' +
        '| date | commit | machine | seed | passed | failed | skipped | minutes | suites that failed | suites not run | suites of an earlier commit |\n' +
        '|---|---|---|---|---|---|---|---|---|---|---|\n',
    );
  }
  const machines = [...new Set(all.flatMap(([, outcome]) => outcome?.machine ?? []))].join('; ');
  appendFileSync(
    evidence,
    `| ${new Date().toISOString().slice(0, 10)} | ${tree} | ${machines} | ${seed} | ${counts.passed} | ${counts.failed} | ` +
      `${counts.skipped} | ${minutes.toFixed(0)} | ${failed.join(', ') || 'none'} | ${skipped.join(', ') || 'none'} | ${earlier.join(', ') || 'none'} |\n`,
  );
  console.log(`\n${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
  return failed.length === 0;
}

if (options.list) {
  for (const { name, minutes, missing } of SUITES) {
    const reason = missing?.();
    console.log(
      `${name.padEnd(22)} ${String(minutes).padStart(3)} min${reason === undefined ? '' : `  not here: ${reason}`}`,
    );
  }
  process.exit(0);
}
const only = options.only?.split(',');
for (const name of only ?? []) {
  if (!SUITES.some((suite) => suite.name === name)) fail(`unknown suite "${name}"; --list prints all`);
}
if (options.seed !== undefined && !/^\d{1,9}$/.test(options.seed)) fail(`--seed ${options.seed} is not an integer`);

const state = readState();
/** @param {string} name */
function hasPassed(name) {
  if (state.outcomes[name]?.status !== 'passed') return false;
  return name !== 'build' || (existsSync(builtFile) && readFileSync(builtFile, 'utf8') === state.tree);
}
mkdirSync(folder, { recursive: true });
console.log(`full run of ${state.tree}, seed ${state.seed}`);
for (const suite of SUITES) {
  if (only !== undefined && !only.includes(suite.name)) continue;
  if (hasPassed(suite.name)) {
    console.log(`${suite.name.padEnd(22)} passed before`);
    continue;
  }
  const outcome = await runSuite(suite, state);
  state.outcomes[suite.name] = outcome;
  if (suite.name === 'build' && outcome.status === 'passed') writeFileSync(builtFile, state.tree);
  writeFileSync(stateFile, `${JSON.stringify(state, null, 2)}\n`);
  const counts =
    outcome.counts === undefined ? '' : `, ${outcome.counts.passed} passed, ${outcome.counts.failed} failed`;
  console.log(
    `${suite.name.padEnd(22)} ${outcome.status} in ${outcome.minutes.toFixed(1)} of ${suite.minutes} min${counts}` +
      `${outcome.detail === '' ? '' : `: ${outcome.detail}`}`,
  );
  if (outcome.status === 'failed')
    console.log(`  build/full-run/${suite.name}.log; again: npm run test:full -- --only ${suite.name}`);
}
const isComplete = SUITES.every(({ name }) => state.outcomes[name] !== undefined);
if (isComplete) process.exitCode = report(state) ? 0 : 1;
else process.exitCode = Object.values(state.outcomes).some(({ status }) => status === 'failed') ? 1 : 0;
