import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { FaultRecord } from './fault-record.js';

/** An executor that ended without being asked to. */
export interface Fault {
  /** ISO 8601. */
  readonly at: string;
  readonly pid: number | undefined;
  readonly generation: number;
  /** Why the gateway gave it up. */
  readonly cause: string;
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly record: FaultRecord | undefined;
  /** What it last wrote to stderr. */
  readonly lastLine: string;
}

const FAULTS_KEPT = 32;
const FILE = 'faults.json';

/** Where a user's gateways keep what should outlive them: `$XDG_STATE_HOME/rocmforge`. */
export function defaultStateFolder(): string {
  return path.join(process.env.XDG_STATE_HOME ?? path.join(os.homedir(), '.local', 'state'), 'rocmforge');
}

/** The faults kept in a state folder, oldest first; none when there is no such folder. */
export function readFaults(folder: string): readonly Fault[] {
  try {
    const faults: unknown = JSON.parse(readFileSync(path.join(folder, FILE), 'utf8'));
    return Array.isArray(faults) ? (faults as Fault[]) : [];
  } catch {
    return [];
  }
}

/** Adds a fault to those kept in a state folder, of which the oldest goes when there are too many. */
export function keepFault(folder: string, fault: Fault): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const file = path.join(folder, FILE);
  const faults = [...readFaults(folder), fault].slice(-FAULTS_KEPT);
  // Whole or not at all: another gateway of this user may read it now.
  const written = `${file}.${process.pid}`;
  writeFileSync(written, `${JSON.stringify(faults, null, 2)}\n`, { mode: 0o600 });
  renameSync(written, file);
}

/** A fault in one line: how it ended, in what, and its last words. */
export function describeFault({ cause, exitCode, signal, record, lastLine }: Fault): string {
  const steps = record?.steps;
  const parts = [
    signal === null ? `exit code ${exitCode}` : signal,
    record === undefined ? 'before it kept a record' : record.phase,
    steps && (steps[0] === steps[1] ? `in step ${steps[0]}` : `in steps ${steps[0]} to ${steps[1]}`),
    steps && record?.launch && `last launch ${record.launch.kernel} ${record.launch.grid.join('×')}`,
    record?.error?.message,
    cause,
    lastLine,
  ];
  return parts.filter((part) => part !== undefined && part !== '').join('; ');
}
