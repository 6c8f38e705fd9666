// Proves that the default tests notice mistakes: applies the patches of test/mutations to a copy of the tree, one at a time,
// builds it, runs the tests that the change may concern, the nearest first, and prints which one caught it.
//
//   node tools/mutate-typescript.mjs
//     [--only TEXT,...]  the mistakes whose name contains one of these
//     [--shard I/N]      of those every N-th, from the I-th on
//     [--tier TIER]      `default` (what `npm test` runs), or `full`: what the default tier does not notice is tried with the full one
//     [--within SECONDS] look no longer than that for a test that notices; default: until all have run
//     [--record FILE]    write what is printed to FILE, too
//     [--least N]        end with 1 when fewer are caught; default: all
import { spawn } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { TIER_NAMES, tierOf } from '../test/tiers.mjs';
import { distancesFrom, importersOf, mutationsOf } from './typescript-mutations.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const { values: options } = parseArgs({
  options: {
    only: { type: 'string', default: '' },
    shard: { type: 'string', default: '1/1' },
    tier: { type: 'string', default: 'default' },
    within: { type: 'string' },
    record: { type: 'string' },
    least: { type: 'string' },
  },
});

/** Files of the first run, and by how much each next run has more. */
const FIRST_FILES = 4;
const GROWTH = 2;
/** Time within which a test's awaited event comes, or never. */
const TEST_TIMEOUT_MS = 120_000;
const RUN_TIMEOUT_MS = 1_200_000;
/** Tiers that are tried, one after the other. @type {readonly ('default' | 'full')[]} */
const tiers = options.tier === 'full' ? ['default', 'full'] : ['default'];
/** The one that runs. */
let tier = tiers[0];
/** Folders that a copy links to in place of having its own, and those it lacks. */
const LINKED = ['node_modules', 'build'];
const LEFT_OUT = ['.git', 'coverage', ...LINKED];
const NICENESS = 10;
const NOT_CAUGHT = options.within === undefined ? 'SURVIVED' : `not caught within ${options.within} s`;

const places = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-mutations-'));
const mutated = path.join(places, 'mutated');
const unchanged = path.join(places, 'unchanged');
const temporary = path.join(places, 't');
const bin = (...names) => path.join(root, 'node_modules', ...names);

function copyTree(target) {
  for (const name of readdirSync(root)) {
    if (!LEFT_OUT.includes(name)) cpSync(path.join(root, name), path.join(target, name), { recursive: true });
  }
  for (const name of LINKED) symlinkSync(path.join(root, name), path.join(target, name));
}

/** Ends what runs now, with all that it started. */
let endRunning;

/** Runs a program to its end, with all that it starts. @returns its exit status; null where it did not end in time */
function run(program, args, cwd) {
  const { ROCMFORGE_TIER, ...rest } = process.env;
  const env = tier === 'full' ? { ...rest, ROCMFORGE_TIER: 'full' } : rest;
  // Copies are no repositories, wherever they lie; and what a test leaves behind goes with them.
  const own = { GIT_CEILING_DIRECTORIES: places, TMPDIR: temporary };
  const child = spawn(program, args, { cwd, env: { ...env, ...own }, detached: true });
  if (child.pid === undefined) throw new Error(`${program} cannot be started`);
  const group = -child.pid;
  os.setPriority(child.pid, NICENESS);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output = (output + text).slice(-10_000);
    });
  }
  const end = () => {
    try {
      process.kill(group, 'SIGKILL');
    } catch {
      // All of them have ended.
    }
  };
  return new Promise((resolve) => {
    const timer = setTimeout(end, RUN_TIMEOUT_MS);
    endRunning = end;
    child.once('close', (status) => {
      clearTimeout(timer);
      endRunning = undefined;
      end();
      resolve({ status, output });
    });
  });
}

async function mustRun(what, program, args, cwd) {
  const { status, output } = await run(program, args, cwd);
  if (status !== 0) throw new Error(`${what}:\n${output}`);
}

const build = (what, cwd) => mustRun(`${what} does not build`, 'npm', ['run', 'build:ts', '--silent'], cwd);

/** Number of folders that a test and a source have in common: tests lie as sources do. */
function kinship(test, source) {
  const [a, b] = [test, source].map((file) => path.dirname(file).split('/').slice(1));
  const differ = a.findIndex((folder, i) => folder !== b[i]);
  return 3 * (differ < 0 ? a.length : differ);
}

/** Words of a mistake's name that a test file's name has, too. */
const sharedWords = (file, name) => name.split(/[/-]/).filter((word) => word.length > 4 && file.includes(word)).length;

/** The test files that a change may concern, those first that are likely to notice soonest. */
function candidates(importers, target, name) {
  const most = TIER_NAMES.indexOf(tier);
  return [...distancesFrom(importers, target)]
    .map(([file, distance]) => ({
      file,
      distance: distance - kinship(file, target),
      words: sharedWords(path.basename(file), name),
      tier: TIER_NAMES.indexOf(tierOf(file)),
    }))
    .filter(({ tier }) => tier >= 0 && tier <= most)
    .sort((a, b) => b.words - a.words || a.tier - b.tier || a.distance - b.distance || a.file.localeCompare(b.file))
    .map(({ file }) => file);
}

/** Runs test files until one fails. @returns the failed tests, by file; none: all passed */
async function failures(cwd, files) {
  const report = path.join(places, 'report.json');
  const failed = new Map();
  for (const isClock of [false, true]) {
    const chosen = files.filter((file) => file.endsWith('.clock.ts') === isClock);
    if (chosen.length === 0) continue;
    rmSync(report, { force: true });
    const config = isClock ? ['-c', 'vitest.clock.config.ts'] : [];
    const limits = [`--testTimeout=${TEST_TIMEOUT_MS}`, `--hookTimeout=${TEST_TIMEOUT_MS}`];
    const args = ['run', ...chosen, ...config, '--bail=1', ...limits, '--reporter=json', `--outputFile=${report}`];
    const { status } = await run(process.execPath, [bin('vitest', 'vitest.mjs'), ...args], cwd);
    if (status === 0) continue;
    const results = existsSync(report) ? JSON.parse(readFileSync(report, 'utf8')).testResults : [];
    for (const { name, status: verdict, assertionResults } of results) {
      if (verdict !== 'failed') continue;
      const first = assertionResults.find((result) => result.status === 'failed');
      failed.set(path.relative(cwd, name), first?.fullName ?? 'the file does not load');
    }
    // A failure of no single test, such as an unhandled rejection, or a run that does not end.
    if (failed.size === 0 && chosen.length === 1) failed.set(chosen[0], 'the run fails');
    for (const file of failed.size === 0 ? chosen : []) {
      for (const [name, test] of await failures(cwd, [file])) failed.set(name, test);
      if (failed.size > 0) break;
    }
  }
  return failed;
}

const passing = new Map();

/** True if a test file passes where nothing is changed. */
async function passes(file) {
  const key = `${tier} ${file}`;
  if (!passing.has(key)) passing.set(key, (await failures(unchanged, [file])).size === 0);
  return passing.get(key);
}

/** @returns the file and the test that noticed; undefined: none did */
async function caughtBy(files) {
  const end = performance.now() + 1000 * Number(options.within ?? Number.POSITIVE_INFINITY);
  let left = files.filter((file) => passing.get(`${tier} ${file}`) !== false);
  for (let size = FIRST_FILES; left.length > 0 && performance.now() < end; size *= GROWTH) {
    const chosen = left.slice(0, size);
    const failed = await failures(mutated, chosen);
    for (const [file, test] of failed) {
      // One that fails now and then, on a busy machine, has not noticed anything.
      if ((await passes(file)) && (await failures(mutated, [file])).size > 0) return { file, test };
    }
    // A file that fails anyway says nothing; those that were not run because of it have their turn again.
    left = failed.size > 0 ? left.filter((file) => !failed.has(file)) : left.slice(size);
  }
  return undefined;
}

/** Applies a mistake to the copy, builds it, and looks for a test that notices. */
async function tryOne({ file, name, target }, importers) {
  await mustRun(`${name} does not apply`, 'git', ['apply', file], mutated);
  try {
    await build(name, mutated);
    for (const each of tiers) {
      tier = each;
      const found = await caughtBy(candidates(importers, target, name));
      if (found !== undefined) return found;
    }
    return undefined;
  } finally {
    cpSync(path.join(unchanged, target), path.join(mutated, target));
    cpSync(path.join(unchanged, 'dist'), path.join(mutated, 'dist'), { recursive: true });
  }
}

const lines = [];
function tell(line) {
  console.log(line);
  lines.push(line);
  if (options.record !== undefined) writeFileSync(options.record, `${lines.join('\n')}\n`);
}

async function main() {
  if (!['default', 'full'].includes(options.tier)) throw new Error(`--tier is ${options.tier}; use default or full`);
  const [shard, shards] = options.shard.split('/').map(Number);
  const chosen = mutationsOf(root)
    .filter(({ name }) => options.only.split(',').some((text) => name.includes(text)))
    .filter((_, i) => i % shards === shard - 1);
  const importers = importersOf(root);
  mkdirSync(temporary);
  copyTree(mutated);
  await build('the tree', mutated);
  copyTree(unchanged);
  cpSync(path.join(mutated, 'dist'), path.join(unchanged, 'dist'), { recursive: true });
  let caught = 0;
  for (const mutation of chosen) {
    const began = performance.now();
    const found = await tryOne(mutation, importers);
    const seconds = ((performance.now() - began) / 1000).toFixed(0);
    if (found !== undefined) caught += 1;
    tell(`${mutation.name}  ${found === undefined ? NOT_CAUGHT : `${found.file}: ${found.test}`}  ${seconds} s`);
  }
  tell(`\n${caught} of ${chosen.length} mistakes caught`);
  return caught >= Number(options.least ?? chosen.length);
}

process.once('exit', () => {
  endRunning?.();
  // A process that was just killed may have written a moment ago.
  rmSync(places, { recursive: true, force: true, maxRetries: 5 });
});
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1));
main().then(
  (isEnough) => process.exit(isEnough ? 0 : 1),
  (error) => {
    console.error(`mutate-typescript: ${error.message}`);
    process.exit(1);
  },
);
