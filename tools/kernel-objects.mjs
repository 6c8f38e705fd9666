// Compiles as many files at a time as there are cores, and keeps each object under build/cache by what it was made of: what
// is there is not compiled again, in whatever target or folder it is wanted.
import { execFile } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

const CACHE = path.join(root, 'build', 'cache');
/** Objects that nothing has used for so long are forgotten. */
const CACHE_DAYS = 14;
/** Interval at which a build whose output is no terminal reports its progress. */
const PROGRESS_MS = 30_000;

/**
 * Ends the build with one line on stderr.
 *
 * @param {string} message
 * @returns {never}
 */
export function fail(message) {
  console.error(`build-kernels: ${message}`);
  process.exit(1);
}

/** Forgets what nothing has used for a while. */
export function trimCache() {
  if (!existsSync(CACHE)) return;
  const oldest = Date.now() - CACHE_DAYS * 24 * 3600 * 1000;
  for (const name of readdirSync(CACHE)) {
    const file = path.join(CACHE, name);
    if (statSync(file).mtimeMs < oldest) rmSync(file, { recursive: true, force: true });
  }
}

/** True if an object with this key is there. */
export const isKept = (key) => existsSync(path.join(CACHE, key));

/** True if an object that was made of the same is there; then it is put in place. */
function fromCache(job) {
  if (job.key === undefined || !isKept(job.key)) return false;
  const kept = path.join(CACHE, job.key);
  copyFileSync(kept, job.output);
  const now = new Date();
  utimesSync(kept, now, now);
  return true;
}

/** Keeps an object for whoever wants the same; whole or not at all, since several builds may run. */
function intoCache(job) {
  if (job.key === undefined) return;
  mkdirSync(CACHE, { recursive: true });
  const writing = path.join(CACHE, `${job.key}.${process.pid}`);
  copyFileSync(job.output, writing);
  renameSync(writing, path.join(CACHE, job.key));
}

/** Tells on stderr how many of a target's objects are there: one line on a terminal, elsewhere one now and then. */
class Progress {
  done = 0;
  told = Date.now();

  constructor(target, count) {
    this.target = target;
    this.count = count;
    this.shows = count > 1;
  }

  step(what) {
    this.done += 1;
    if (!this.shows) return;
    const line = `kernels: ${this.target} ${this.done}/${this.count} ${what}`;
    if (process.stderr.isTTY) process.stderr.write(`\r${line}\x1b[K`);
    else if (Date.now() - this.told >= PROGRESS_MS) {
      console.error(line);
      this.told = Date.now();
    }
  }

  end() {
    if (this.shows && process.stderr.isTTY) process.stderr.write('\r\x1b[K');
  }
}

/**
 * Makes each job's output, as many at a time as there are cores; the first failure ends the build with the compiler's
 * words.
 *
 * @param jobs each { what, compiler, args, output, key }; without a key it is made anew
 * @returns how many were compiled, and how many were there already
 */
export async function inParallel(target, jobs) {
  const queue = jobs.filter((job) => !fromCache(job));
  const count = { compiled: queue.length, kept: jobs.length - queue.length };
  const progress = new Progress(target, queue.length);
  const worker = async () => {
    for (let job = queue.shift(); job; job = queue.shift()) {
      try {
        await run(job.compiler, job.args, { maxBuffer: 1 << 26 });
      } catch (error) {
        fail(`${job.what} did not compile:\n${/** @type {any} */ (error).stderr || error}`);
      }
      if (!existsSync(job.output)) fail(`${job.compiler} said nothing and wrote no ${job.output}`);
      intoCache(job);
      progress.step(job.what);
    }
  };
  await Promise.all(Array.from({ length: os.availableParallelism() }, worker));
  progress.end();
  return count;
}

/** Processor time of the compilers that have ended, in seconds; 0 where the system does not tell. */
export function childSeconds() {
  try {
    const fields = readFileSync('/proc/self/stat', 'utf8').split(') ')[1].split(' ');
    // cutime and cstime, in ticks of which every Linux that Node runs on has 100 a second.
    return (Number(fields[13]) + Number(fields[14])) / 100;
  } catch {
    return 0;
  }
}
