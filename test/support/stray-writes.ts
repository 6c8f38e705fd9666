import { closeSync, fstatSync, openSync, readdirSync, readFileSync, readlinkSync, readSync, writeSync } from 'node:fs';
import { KeeperClient } from '../../src/executor/keeper/client.js';
import type { Random } from './random.js';

/** A part of a file that holds memory of an executor. */
export interface MemoryFile {
  readonly path: string;
  readonly from: number;
  readonly bytes: number;
}

/** First bytes of the host's memory, which say what follows. */
const HEADER_BYTES = 1 << 16;

/** KV blocks and states of executors on the host, which a gateway in this process holds. */
export const hostMemory = (): MemoryFile => memoryNamed('rocmforge-kv', HEADER_BYTES);

/** Copies of KV blocks and states of an unloaded model, which a gateway in this process holds. */
export const savedMemory = (): MemoryFile => memoryNamed('rocmforge-saved-kv', 0);

function memoryNamed(text: string, from: number): MemoryFile {
  const names = readdirSync('/proc/self/fd').map((name) => `/proc/self/fd/${name}`);
  const path = names.find((name) => linkOf(name).includes(text));
  if (path === undefined) throw new Error(`this process holds no ${text}`);
  const descriptor = openSync(path, 'r');
  const { size } = fstatSync(descriptor);
  closeSync(descriptor);
  return { path, from, bytes: size - from };
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    // It was the folder's own.
    return '';
  }
}

/** A connection to the keeper of an executor. */
export function connectKeeper(executorPid: number): Promise<KeeperClient> {
  const args = readFileSync(`/proc/${executorPid}/cmdline`, 'utf8').split('\0');
  return KeeperClient.connect(args[args.indexOf('--keeper') + 1] as string);
}

/** A chunk of the memory of an executor on the test device, which its keeper holds. */
export async function keeperMemory(executorPid: number, name: string): Promise<MemoryFile> {
  const keeper = await connectKeeper(executorPid);
  const chunk = keeper.state.chunks.find((candidate) => candidate.name === name);
  if (chunk === undefined) throw new Error(`the keeper has no ${name}`);
  // The test device's handle says where the memory is.
  const [place = ''] = Buffer.from(chunk.handle, 'base64').toString('latin1').split('\0');
  const [path = '', from] = place.split(':');
  return { path, from: Number(from), bytes: chunk.bytes };
}

/** Flips a bit of a byte. */
export function flipBit({ path, from }: MemoryFile, at: number, bit = 4): void {
  change(path, from + at, 1, (bytes) => {
    bytes[0] = (bytes[0] as number) ^ (1 << bit);
  });
}

/**
 * Writes to some places, as an executor that goes astray might: flips a bit, overwrites a page, or copies a range to another place, by
 * turns.
 */
export function strayWrites(file: MemoryFile, count: number, random: Random): void {
  const { path, from, bytes } = file;
  for (let i = 0; i < count; i++) {
    const at = random.below(bytes);
    if (i % 3 === 0) flipBit(file, at, random.below(8));
    const length = Math.min(4096, bytes - at);
    if (i % 3 === 1) change(path, from + at, length, (page) => page.fill(random.below(256)));
    if (i % 3 !== 2) continue;
    const source = random.below(bytes - length + 1);
    const descriptor = openSync(path, 'r');
    const copied = Buffer.alloc(length);
    readSync(descriptor, copied, 0, length, from + source);
    closeSync(descriptor);
    change(path, from + at, length, (page) => page.set(copied));
  }
}

function change(path: string, at: number, length: number, edit: (bytes: Buffer) => void): void {
  const descriptor = openSync(path, 'r+');
  const bytes = Buffer.alloc(length);
  readSync(descriptor, bytes, 0, length, at);
  edit(bytes);
  writeSync(descriptor, bytes, 0, length, at);
  closeSync(descriptor);
}
