import { lstatSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { endLeftProcesses, namesIn, parentOf, variablesOf } from './left-processes.js';

/** Short, because sockets lie in it, and a socket's path has 107 bytes at most. The pid of the run follows. */
const PREFIX = 'rf-';
/** Names of this project's folders and files outside of a run's folder. */
const OURS = /^rocmforge/;
/** Command lines of what works in the temporary folder, too. */
const OUR_COMMANDS = /vitest|cli\/main\.js|tools\/[\w-]+\.mjs/;

/**
 * A global setup: the temporary folder of a run, in which everything is that its tests and their processes put into the temporary
 * folder. The run fails when it leaves a process, or something in the real one; of that nobody can say whose it is while another run
 * or a tool of this project is at work.
 *
 * @returns what removes the folder; nothing where another project of the run has made it
 */
export default function setup(): (() => Promise<void>) | undefined {
  const usual = process.env.TMPDIR;
  if (path.basename(usual ?? '').startsWith(`${PREFIX}${process.pid}-`)) return undefined;
  const places = [os.tmpdir(), '/dev/shm'];
  removeLeftRuns(os.tmpdir());
  const folder = mkdtempSync(path.join(os.tmpdir(), `${PREFIX}${process.pid}-`));
  const before = new Set(places.flatMap(ours));
  const isAloneAtStart = !othersWork(folder);
  process.env.TMPDIR = folder;
  // The folder of the run around this one, if a test has started it.
  delete process.env.ROCMFORGE_TEST_TMPDIR;
  return async () => {
    // Workers that have yet to end are children of this process; what tests leave is not, once its worker has ended.
    const processes = await endLeftProcesses(folder, (parent) => parent === process.pid);
    if (usual === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = usual;
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    const isAlone = isAloneAtStart && !othersWork(folder);
    const entries = isAlone ? places.flatMap(ours).filter((entry) => !before.has(entry)) : [];
    const left = [...processes.map(({ pid, commandLine }) => `process ${pid} ${commandLine}`), ...entries];
    if (left.length === 0) return;
    process.exitCode = 1;
    console.error(`the run left behind:\n${left.map((what) => `  ${what}\n`).join('')}`);
  };
}

/** Removes the folders of runs that were killed. */
function removeLeftRuns(place: string): void {
  for (const name of namesIn(place)) {
    const pid = new RegExp(`^${PREFIX}(\\d+)-\\w{6}$`).exec(name)?.[1];
    const folder = path.join(place, name);
    if (pid === undefined || isRunning(Number(pid)) || lstatSync(folder).uid !== process.getuid?.()) continue;
    rmSync(folder, { recursive: true, force: true });
  }
}

const ours = (place: string): readonly string[] =>
  namesIn(place)
    .filter((name) => OURS.test(name))
    .map((name) => path.join(place, name));

/** True if another run, a server or a tool of this project is at work. */
function othersWork(folder: string): boolean {
  const ancestors = new Set<number>();
  for (let pid = process.pid; pid > 0; pid = parentOf(pid)) ancestors.add(pid);
  return namesIn('/proc').some((name) => {
    if (!/^\d+$/.test(name) || ancestors.has(Number(name))) return false;
    try {
      if (!OUR_COMMANDS.test(readFileSync(`/proc/${name}/cmdline`, 'utf8'))) return false;
      return parentOf(Number(name)) !== process.pid && !variablesOf(name).includes(`TMPDIR=${folder}`);
    } catch {
      return false;
    }
  });
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
