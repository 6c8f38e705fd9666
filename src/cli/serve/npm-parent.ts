import { readFileSync } from 'node:fs';

const LOOK_MS = 500;
const NPM = /(^|[/\0 ])np[mx](-cli\.js)?([\0 ]|$)/;

/** Facts about a process. */
export interface ProcessEntry {
  readonly parent: number;
  readonly commandLine: string;
}

/** A process by its id; undefined for one that has ended. */
export type ReadProcess = (pid: number) => ProcessEntry | undefined;

/**
 * npm ends at a signal without passing it on, so that a server started by `npx` or `npm run` would stay behind with its ports
 * and device memory. Where npm is among this process's ancestors, calls back once when it, or a shell between, has ended.
 *
 * @param environment npm sets `npm_execpath`; without it nothing is watched, so that a service manager is never taken for npm
 */
export function watchNpm(
  onEnd: () => void,
  environment: Readonly<Record<string, string | undefined>> = process.env,
): void {
  if (environment.npm_execpath === undefined) return;
  const chain = npmAncestors(process.pid, readProcess);
  if (chain === undefined) return;
  const timer = setInterval(() => {
    if (isWhole(chain, readProcess)) return;
    clearInterval(timer);
    onEnd();
  }, LOOK_MS).unref();
}

/** A process, its parent and so on up to npm; undefined where npm is not among its ancestors. */
export function npmAncestors(pid: number, read: ReadProcess): readonly number[] | undefined {
  const chain = [pid];
  for (let entry = read(pid); entry !== undefined && entry.parent > 1; entry = read(entry.parent)) {
    chain.push(entry.parent);
    if (NPM.test(read(entry.parent)?.commandLine ?? '')) return chain;
  }
  return undefined;
}

/** True if each process of a chain is still the child of the next. */
export function isWhole(chain: readonly number[], read: ReadProcess): boolean {
  return chain.every((pid, i) => i === chain.length - 1 || read(pid)?.parent === chain[i + 1]);
}

function readProcess(pid: number): ProcessEntry | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name, in parentheses, may hold anything.
    const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
    return { parent, commandLine: readFileSync(`/proc/${pid}/cmdline`, 'latin1') };
  } catch {
    return undefined;
  }
}
