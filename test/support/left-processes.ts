import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** Time that ending processes may take: long enough for a gateway that drains on a busy machine. */
const MOST_MS = 30_000;

export interface LeftProcess {
  readonly pid: number;
  readonly commandLine: string;
}

/**
 * Waits until no process is left that was started with a temporary folder, and ends those that are left after 30 s.
 *
 * @param folder  the start of their TMPDIR
 * @param isOther of a process that may go on, by its parent's pid
 * @returns the processes that were ended; none where there is no /proc
 */
export async function endLeftProcesses(
  folder: string,
  isOther: (parent: number) => boolean = () => false,
): Promise<readonly LeftProcess[]> {
  const end = performance.now() + MOST_MS;
  let left = processesOf(folder, isOther);
  while (left.length > 0 && performance.now() < end) {
    await sleep(50);
    left = processesOf(folder, isOther);
  }
  for (const { pid } of left) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It has ended.
    }
  }
  return left;
}

function processesOf(folder: string, isOther: (parent: number) => boolean): readonly LeftProcess[] {
  const found: LeftProcess[] = [];
  for (const name of namesIn('/proc')) {
    const pid = Number(name);
    if (!(pid > 0) || pid === process.pid) continue;
    try {
      if (!variablesOf(name).includes(`TMPDIR=${folder}`) || isOther(parentOf(pid))) continue;
      const commandLine = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
      found.push({ pid, commandLine });
    } catch {
      // It has ended, or belongs to another user.
    }
  }
  return found;
}

/** The environment that a process was started with. @throws Error where it has ended, or belongs to another user */
export const variablesOf = (pid: string): string => readFileSync(`/proc/${pid}/environ`, 'utf8');

/** The parent of a process; 0 where it has none. @throws Error where it has ended */
export function parentOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The command, in parentheses, may hold anything; the state and the parent follow it.
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
}

/** The names in a folder; none of one that is not there. */
export function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
