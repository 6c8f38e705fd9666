import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { RocmForgeError } from '../../shared/errors.js';

/** Modules are read many at once, and a gateway has sockets, model files and a log. */
export const FEWEST_FILES = 128;
/** Threads of a gateway in addition to those that Node starts with: the thread that encodes texts. */
const GATEWAY_TASKS = 1;
/** Threads of an executor in addition to those that Node starts with: the thread that watches its parent. */
const EXECUTOR_TASKS = 1;
/** Above this the tasks of a user are not counted: that reads a file of each process. */
const MOST_COUNTED = 4096;

/** A limit that is there, and what is left of it. */
export interface TaskLimit {
  /** Origin of the limit, as an operator knows it. */
  readonly name: string;
  readonly limit: number;
  readonly free: number;
}

/**
 * Checks what a gateway needs to start, before it starts anything: below that Node's threads and modules fail in ways that
 * name no limit, or hang.
 *
 * @param threads of each executor that is started here, beside its own; empty where all are elsewhere
 * @param root of the file system, for tests
 * @throws RocmForgeError `SYSTEM_LIMIT`, with the limit and what is needed
 */
export function checkSystemLimits(threads: readonly number[], root = '/'): void {
  const files = ownLimit('Max open files', root);
  if (files < FEWEST_FILES) throw fewFiles(files);
  const own = numberAfter('Threads', readText(path.join(root, 'proc/self/status'))) ?? 0;
  const needed = GATEWAY_TASKS + threads.reduce((sum, count) => sum + own + EXECUTOR_TASKS + count, 0);
  for (const { name, limit, free } of taskLimits(root)) {
    if (free >= needed) continue;
    const message =
      `${name} is ${limit} processes and threads, of which ${Math.max(0, free)} are free, and ${needed} more are needed; ` +
      'raise it (TasksMax of a systemd unit, --pids-limit of a container, ulimit -u)';
    throw new RocmForgeError('SYSTEM_LIMIT', message, { limit: String(limit), needed: String(needed) });
  }
}

/** The error of a limit that a call of the system has met: `EMFILE`, `ENFILE`; `EAGAIN` of a thread or process. Undefined for any other. */
export function limitError(error: unknown, root = '/'): RocmForgeError | undefined {
  const { code, cause, syscall } = error as NodeJS.ErrnoException & { readonly cause?: unknown };
  if (code === 'EMFILE' || code === 'ENFILE') return fewFiles(ownLimit('Max open files', root));
  if (code === 'ERR_WORKER_INIT_FAILED' || (code === 'EAGAIN' && syscall !== 'read' && syscall !== 'write')) {
    const told = taskLimits(root).map(({ name, limit, free }) => `${name} is ${limit}, ${Math.max(0, free)} free`);
    const limits = told.length === 0 ? 'the limit of processes and threads is reached' : told.join('; ');
    const message = `a thread or process could not be started: ${limits}; raise it (TasksMax, --pids-limit, ulimit -u)`;
    return new RocmForgeError('SYSTEM_LIMIT', message, {}, { cause: error });
  }
  return cause instanceof Error ? limitError(cause, root) : undefined;
}

function fewFiles(limit: number): RocmForgeError {
  // If none can be opened, the limit cannot be read either.
  const told = Number.isFinite(limit) ? `${limit} files` : 'too few files';
  const message =
    `this process may open ${told}, and needs ${FEWEST_FILES} at least and one for each connection; raise the limit ` +
    '(ulimit -n, LimitNOFILE of a systemd unit, --ulimit nofile of a container)';
  return new RocmForgeError('SYSTEM_LIMIT', message, { limit: String(limit), needed: String(FEWEST_FILES) });
}

/** The limits of processes and threads under which this process is. */
function taskLimits(root: string): TaskLimit[] {
  const limits: TaskLimit[] = [];
  for (const folder of groupFolders(root)) {
    const limit = Number(readText(path.join(folder, 'pids.max')) ?? Number.NaN);
    const used = Number(readText(path.join(folder, 'pids.current')) ?? Number.NaN);
    if (Number.isFinite(limit) && Number.isFinite(used)) {
      limits.push({ name: 'pids.max of the control group', limit, free: limit - used });
    }
  }
  const status = readText(path.join(root, 'proc/self/status'));
  const user = numberAfter('Uid', status);
  const limit = ownLimit('Max processes', root);
  // Whoever is root is not held to it.
  if (user !== undefined && user !== 0 && limit <= MOST_COUNTED) {
    limits.push({ name: 'the limit of processes of this user', limit, free: limit - tasksOf(user, root) });
  }
  return limits;
}

/** Folders of the control groups of processes and threads that this process is in, innermost first; of either version. */
function groupFolders(root: string): string[] {
  const folders: string[] = [];
  for (const line of (readText(path.join(root, 'proc/self/cgroup')) ?? '').split('\n')) {
    const [, controllers, group] = /^\d+:([^:]*):(\/.*)$/.exec(line) ?? [];
    if (group === undefined || (controllers !== '' && controllers !== 'pids')) continue;
    const mount = path.join(root, 'sys/fs/cgroup', controllers ?? '');
    for (let at = group; ; at = path.dirname(at)) {
      folders.push(path.join(mount, at));
      if (at === '/') break;
    }
  }
  return folders;
}

/** Processes and threads of a user. */
function tasksOf(user: number, root: string): number {
  let tasks = 0;
  for (const entry of readdirSync(path.join(root, 'proc'))) {
    if (!/^\d+$/.test(entry)) continue;
    const status = readText(path.join(root, 'proc', entry, 'status'));
    if (numberAfter('Uid', status) === user) tasks += numberAfter('Threads', status) ?? 0;
  }
  return tasks;
}

function ownLimit(name: string, root: string): number {
  const soft = new RegExp(`^${name}\\s+(\\d+)`, 'm').exec(readText(path.join(root, 'proc/self/limits')) ?? '')?.[1];
  return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft);
}

function numberAfter(name: string, text: string | undefined): number | undefined {
  const found = new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text ?? '')?.[1];
  return found === undefined ? undefined : Number(found);
}

/** A file's text; undefined where it cannot be read. */
function readText(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}
