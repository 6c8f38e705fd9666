import { closeSync, constants, openSync, readSync } from 'node:fs';
import os from 'node:os';

/** Phases of an executor, in the order of the numbers that it stamps. */
export const FAULT_PHASES = ['starting', 'loading', 'self-test', 'serving'] as const;
export type FaultPhase = (typeof FAULT_PHASES)[number];

/** A launch as it was stamped just before it was made. */
export interface RecordedLaunch {
  /** The step it belongs to, 0 for none. */
  readonly step: number;
  /** `graph` for a whole captured graph, whose arguments are the step's counts. */
  readonly kernel: string;
  /** Device of a split model that it was made on, from 0. */
  readonly device?: number;
  readonly grid: readonly [number, number, number];
  /** One word an argument, in hexadecimal: addresses, or the bits of a scalar at the low end. */
  readonly arguments: readonly string[];
}

/** Last activity of an executor when it ended; see `native/fault_record.h`. */
export interface FaultRecord {
  readonly phase: FaultPhase;
  /** The fatal signal that its handler saw, and the address that it is about. */
  readonly signal: { readonly name: string; readonly address: string } | undefined;
  /** Steps begun and not finished: first and last; undefined when there were none. */
  readonly steps: readonly [first: number, last: number] | undefined;
  /** The last launch. On a GPU it was queued; which of those before it ran, the device alone knows. */
  readonly launch: RecordedLaunch | undefined;
  /** Last error of the device, and whether nothing on it could be used after that. */
  readonly error: { readonly message: string; readonly sticky: boolean } | undefined;
}

// struct Layout of native/fault_record.h.
const MAGIC = 0x52464652;
const VERSION = 2;
const ERROR_AT = 120;
const ERROR_BYTES = 256;
const LAUNCHES_AT = ERROR_AT + ERROR_BYTES;
const LAUNCHES_KEPT = 8;
const LAUNCH_BYTES = 344;
const NAME_BYTES = 64;
const MOST_ARGUMENTS = (LAUNCH_BYTES - 24 - NAME_BYTES) / 8;

/**
 * Reads the record of an executor that has ended; undefined when it ended before it had opened one. The process that
 * wrote it may have had a wild pointer: no number in it is believed.
 */
export function readFaultRecord(path: string): FaultRecord | undefined {
  const bytes = firstBytes(path, LAUNCHES_AT + LAUNCHES_KEPT * LAUNCH_BYTES);
  if (bytes === undefined) return undefined;
  if (bytes.readUInt32LE(0) !== MAGIC || bytes.readUInt32LE(4) !== VERSION) return undefined;
  const signal = bytes.readUInt32LE(16);
  const begun = Number(bytes.readBigUInt64LE(32));
  const finished = Number(bytes.readBigUInt64LE(40));
  const launches = bytes.readBigUInt64LE(48);
  const message = text(bytes, ERROR_AT, ERROR_BYTES);
  return {
    phase: FAULT_PHASES[bytes.readUInt32LE(8)] ?? 'starting',
    signal: signal === 0 ? undefined : { name: signalName(signal), address: hex(bytes.readBigUInt64LE(24)) },
    steps: begun > finished ? [finished + 1, begun] : undefined,
    launch: launches === 0n ? undefined : launchAt(bytes, Number((launches - 1n) % BigInt(LAUNCHES_KEPT))),
    error: message === '' ? undefined : { message, sticky: bytes.readUInt32LE(12) !== 0 },
  };
}

/** The beginning of a file; undefined when it is shorter or cannot be read. */
function firstBytes(path: string, count: number): Buffer | undefined {
  let fd: number | undefined;
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const bytes = Buffer.alloc(count);
    return readSync(fd, bytes, 0, count, 0) === count ? bytes : undefined;
  } catch {
    return undefined;
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

function launchAt(bytes: Buffer, index: number): RecordedLaunch {
  const at = LAUNCHES_AT + index * LAUNCH_BYTES;
  const count = Math.min(bytes.readUInt16LE(at + 20), MOST_ARGUMENTS);
  const device = bytes.readUInt16LE(at + 22);
  return {
    step: Number(bytes.readBigUInt64LE(at)),
    grid: [bytes.readInt32LE(at + 8), bytes.readInt32LE(at + 12), bytes.readInt32LE(at + 16)],
    kernel: text(bytes, at + 24, NAME_BYTES),
    ...(device > 0 && { device: device - 1 }),
    arguments: Array.from({ length: count }, (_, i) => hex(bytes.readBigUInt64LE(at + 24 + NAME_BYTES + 8 * i))),
  };
}

function text(bytes: Buffer, at: number, most: number): string {
  const end = bytes.indexOf(0, at);
  return bytes.toString('utf8', at, Math.min(end < 0 ? at + most : end, at + most));
}

const hex = (word: bigint) => `0x${word.toString(16)}`;

function signalName(number: number): string {
  return Object.entries(os.constants.signals).find(([, value]) => value === number)?.[0] ?? `signal ${number}`;
}
