import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { RocmForgeError } from '../../../shared/errors.js';
import { removeAtExit } from '../../../shared/exit-removal.js';

/** The longest path that a socket may have, with room for its name in the folder. */
const MOST_FOLDER_BYTES = 107 - '/executor.sock'.length;
const PREFIX = 'rocmforge-';
const NAME = /^rocmforge-[A-Za-z0-9]{6}$/;
/** Says in a folder whose it is. */
const OWNER_FILE = 'owner';
const MOST_OWNER_BYTES = 512;
/** Folders that one start removes at most: whoever has thousands shall not wait for them. */
const MOST_REMOVED = 256;

/** The folders of this process, each with what keeps it from being removed at the exit. */
const forgetters = new Map<string, () => void>();

/**
 * Makes a folder that only this user may enter, where sockets can be; it is removed when this process exits. The usual place for such may be full or gone by
 * the time an executor has to be replaced, so there are others.
 *
 * @throws RocmForgeError `EXECUTOR_UNAVAILABLE` with the reason of each place
 */
export function makePrivateFolder(): string {
  const reasons: string[] = [];
  for (const place of places()) {
    const name = path.join(place, PREFIX);
    // Six random characters follow.
    if (Buffer.byteLength(name) + 6 > MOST_FOLDER_BYTES) {
      reasons.push(`${place}: too long a path for a socket`);
      continue;
    }
    try {
      const folder = mkdtempSync(name);
      noteOwner(folder);
      forgetters.set(folder, removeAtExit(folder));
      return folder;
    } catch (error) {
      reasons.push((error as Error).message);
    }
  }
  throw new RocmForgeError('EXECUTOR_UNAVAILABLE', `no folder for the executor’s socket: ${reasons.join('; ')}`);
}

/**
 * Removes a folder of {@link makePrivateFolder}.
 *
 * @throws the file system's error
 */
export function removePrivateFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
  forgetters.get(folder)?.();
  forgetters.delete(folder);
}

/**
 * Removes the folders that gateways of this user left behind when they were killed: those whose owner is known not to run
 * any more. Whatever cannot be told stays.
 *
 * @returns how many
 */
export function removeLeftFolders(): number {
  let removed = 0;
  for (const place of places()) {
    for (const name of namesIn(place)) {
      if (removed === MOST_REMOVED) return removed;
      const folder = path.join(place, name);
      if (!NAME.test(name) || !isLeft(folder)) continue;
      try {
        rmSync(folder, { recursive: true, force: true });
        removed += 1;
      } catch {
        // Whoever cleans up temporary folders will.
      }
    }
  }
  return removed;
}

function places(): Set<string> {
  return new Set([os.tmpdir(), '/tmp', process.env.XDG_RUNTIME_DIR ?? '/run', '/dev/shm', os.homedir()]);
}

function namesIn(place: string): readonly string[] {
  try {
    return readdirSync(place);
  } catch {
    return [];
  }
}

/** If there is little room, a folder of an unknown owner is better than none. */
function noteOwner(folder: string): void {
  try {
    const owner = ownerOf(process.pid);
    if (owner !== undefined) writeFileSync(path.join(folder, OWNER_FILE), owner, { mode: 0o600 });
  } catch {
    // It stays when this process is killed.
  }
}

/**
 * A process, told from all others: its number means something within a process namespace of one boot of one machine, and
 * for as long as it runs. Folders may be shared by more than that.
 */
function ownerOf(pid: number): string | undefined {
  const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  const namespace = readlinkSync('/proc/self/ns/pid');
  let started: string | undefined;
  try {
    // The command, in parentheses, may hold anything; the 22nd field is when the process started.
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    started = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  } catch {
    return undefined;
  }
  return `${boot} ${namespace} ${pid} ${started}`;
}

/** True if a folder is ours, and was made by a process that is known to have ended. */
function isLeft(folder: string): boolean {
  let descriptor: number | undefined;
  try {
    const { uid, mode } = lstatSync(folder);
    const isOurs = (mode & constants.S_IFMT) === constants.S_IFDIR && uid === process.getuid?.() && (mode & 0o77) === 0;
    if (!isOurs) return false;
    const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
    descriptor = openSync(path.join(folder, OWNER_FILE), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    const stat = fstatSync(descriptor);
    if (!stat.isFile() || stat.size > MOST_OWNER_BYTES) return false;
    const noted = readFileSync(descriptor, 'utf8');
    const [boot, namespace, pid] = noted.split(' ');
    const self = ownerOf(process.pid)?.split(' ');
    if (!/^[1-9]\d{0,9}$/.test(pid ?? '') || boot !== self?.[0] || namespace !== self?.[1]) return false;
    return ownerOf(Number(pid)) !== noted;
  } catch {
    return false;
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}
