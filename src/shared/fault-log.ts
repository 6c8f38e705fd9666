import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { link, mkdir, open, rename, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import type { FaultRecord, RecordedLaunch } from './fault-record.js';

/** An executor that ended without being asked to. */
export interface Fault {
  /** ISO 8601. */
  readonly at: string;
  readonly pid: number | undefined;
  /** As counted by the metric `executor_epoch`. */
  readonly executorEpoch: number;
  /** Why the gateway gave it up. */
  readonly cause: string;
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly record: FaultRecord | undefined;
  /** Its last line on stderr. */
  readonly lastLine: string;
}

const FAULTS_KEPT = 32;
const FILE = 'faults.json';

/** Folder in which a user's gateways keep what should outlive them: `$XDG_STATE_HOME/rocmforge`. */
export function defaultStateFolder(): string {
  return path.join(process.env.XDG_STATE_HOME ?? path.join(os.homedir(), '.local', 'state'), 'rocmforge');
}

/** Faults in a state folder. */
export interface KeptFaults {
  /** Oldest first. */
  readonly faults: readonly Fault[];
  /** Entries, or a whole file, that are not what a gateway writes. */
  readonly unreadable: number;
}

const NOTHING_KEPT: KeptFaults = { faults: [], unreadable: 0 };
/** Opening a pipe would wait for whoever writes to it. */
const WITHOUT_WAITING = constants.O_RDONLY | constants.O_NONBLOCK;
/** Many times what a gateway writes. */
const MAX_FILE_BYTES = 16 << 20;
/** Files put aside in one folder; two versions that take turns would put aside more and more. */
const MOST_PUT_ASIDE = 16;

/** The faults kept in a state folder; none when there is no such folder. */
export function readFaults(folder: string): KeptFaults {
  const file = path.join(folder, FILE);
  try {
    const descriptor = openSync(file, WITHOUT_WAITING);
    try {
      checkFile(fstatSync(descriptor), file);
      return parseFaults(readFileSync(descriptor, 'utf8'));
    } finally {
      closeSync(descriptor);
    }
  } catch (error) {
    return isMissing(error) ? NOTHING_KEPT : { faults: [], unreadable: 1 };
  }
}

let keeping: Promise<unknown> = Promise.resolve();

/**
 * Adds a fault to those kept in a state folder, of which the oldest goes when there are too many. One at a time, and never
 * waited for by who serves: a folder may lie on a disk that does not answer.
 *
 * A file of another version, or one that is damaged, is put aside as `faults.json.1` to `.16` before another is written in its
 * place; entries of it that can be read are kept in both.
 *
 * @returns where a file was put aside; undefined where none was
 * @throws Error when the folder or the file cannot be written, or too many files were put aside
 */
export function keepFault(folder: string, fault: Fault): Promise<string | undefined> {
  const kept = keeping.then(() => addFault(folder, fault));
  keeping = kept.catch(() => undefined);
  return kept;
}

async function addFault(folder: string, fault: Fault): Promise<string | undefined> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const file = path.join(folder, FILE);
  const kept = await readForAdding(file);
  const aside = kept.unreadable > 0 ? await putAside(file) : undefined;
  const faults = [...kept.faults, fault].slice(-FAULTS_KEPT);
  // Whole or not at all: another gateway of this user may read it now.
  const written = `${file}.${process.pid}.new`;
  await writeFile(written, `${JSON.stringify(faults, null, 2)}\n`, {
    mode: 0o600,
    flag: constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NONBLOCK,
  });
  await rename(written, file);
  return aside;
}

/** Gives a file a second name. Unlike a rename it never replaces what another gateway puts aside at the same time. */
async function putAside(file: string): Promise<string> {
  for (let n = 1; n <= MOST_PUT_ASIDE; n++) {
    const aside = `${file}.${n}`;
    try {
      await link(file, aside);
      return aside;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
  throw new Error(`${file} cannot be read, and ${MOST_PUT_ASIDE} files were put aside already; remove some`);
}

async function readForAdding(file: string): Promise<KeptFaults> {
  let opened: Awaited<ReturnType<typeof open>>;
  try {
    opened = await open(file, WITHOUT_WAITING);
  } catch (error) {
    if (isMissing(error)) return NOTHING_KEPT;
    throw error;
  }
  try {
    const stats = await opened.stat();
    checkKind(stats, file);
    return stats.size > MAX_FILE_BYTES ? { faults: [], unreadable: 1 } : parseFaults(await opened.readFile('utf8'));
  } finally {
    await opened.close();
  }
}

const isMissing = (error: unknown): boolean =>
  ['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '');

function checkKind(stats: { isFile(): boolean }, file: string): void {
  if (!stats.isFile()) throw new Error(`${file} is not a regular file`);
}

function checkFile(stats: { isFile(): boolean; readonly size: number }, file: string): void {
  checkKind(stats, file);
  if (stats.size > MAX_FILE_BYTES) throw new Error(`${file} has ${stats.size} bytes, more than a gateway writes`);
}

function parseFaults(text: string): KeptFaults {
  let entries: unknown;
  try {
    entries = JSON.parse(text);
  } catch {
    return { faults: [], unreadable: 1 };
  }
  if (!Array.isArray(entries)) return { faults: [], unreadable: 1 };
  const faults = entries.filter(isFault);
  return { faults, unreadable: entries.length - faults.length };
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null;
const areTexts = (...values: readonly unknown[]): boolean => values.every((value) => typeof value === 'string');

/** True if an entry has what {@link describeFault} tells of. */
function isFault(value: unknown): value is Fault {
  if (!isObject(value)) return false;
  const { at, cause, lastLine, exitCode, signal, record } = value;
  if (!areTexts(at, cause, lastLine)) return false;
  if (exitCode !== null && typeof exitCode !== 'number') return false;
  if (signal !== null && typeof signal !== 'string') return false;
  if (record === undefined) return true;
  if (!isObject(record) || !areTexts(record.phase)) return false;
  const { steps, launch, error } = record;
  return (
    (steps === undefined || (Array.isArray(steps) && steps.length === 2)) &&
    (launch === undefined || (isObject(launch) && areTexts(launch.kernel) && Array.isArray(launch.grid))) &&
    (error === undefined || (isObject(error) && areTexts(error.message)))
  );
}

/** Beginning of the {@link Fault.cause} of an executor that a gateway killed since no step came back. */
export const HUNG_EXECUTOR = 'executor hung';

/** True if the executor hung: the signal that ended it was the gateway's. */
export const isHungFault = ({ cause }: Pick<Fault, 'cause'>): boolean => cause.startsWith(HUNG_EXECUTOR);

/** A fault in one line: how it ended, in what, and its last words. */
export function describeFault(fault: Fault): string {
  const { cause, exitCode, signal, record, lastLine } = fault;
  const isHung = isHungFault(fault);
  const steps = record?.steps;
  const ending = signal === null ? `exit code ${exitCode}` : signal;
  const parts = [
    isHung ? cause : ending,
    record === undefined ? 'before it kept a record' : record.phase,
    steps && (steps[0] === steps[1] ? `in step ${steps[0]}` : `in steps ${steps[0]} to ${steps[1]}`),
    steps && record?.launch && describeLaunch(record.launch),
    record?.error?.message,
    isHung ? undefined : cause,
    lastLine,
  ];
  return parts.filter((part) => part !== undefined && part !== '').join('; ');
}

function describeLaunch({ kernel, grid, device }: RecordedLaunch): string {
  return `last launch ${kernel} ${grid.join('×')}${device === undefined ? '' : ` on device ${device}`}`;
}
