import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { RocmForgeError } from '../../../shared/errors.js';

/** The longest path that a socket may have, with room for its name in the folder. */
const MOST_FOLDER_BYTES = 107 - '/executor.sock'.length;

/**
 * Makes a folder that only this user may enter, where sockets can be. The usual place for such may be full or gone by
 * the time an executor has to be replaced, so there are others.
 *
 * @throws RocmForgeError `EXECUTOR_UNAVAILABLE` with the reason of each place
 */
export function makePrivateFolder(): string {
  const reasons: string[] = [];
  for (const place of new Set([os.tmpdir(), '/tmp', process.env.XDG_RUNTIME_DIR ?? '/run', '/dev/shm', os.homedir()])) {
    const name = path.join(place, 'rocmforge-');
    // Six random characters follow.
    if (Buffer.byteLength(name) + 6 > MOST_FOLDER_BYTES) {
      reasons.push(`${place}: too long a path for a socket`);
      continue;
    }
    try {
      return mkdtempSync(name);
    } catch (error) {
      reasons.push((error as Error).message);
    }
  }
  throw new RocmForgeError('EXECUTOR_UNAVAILABLE', `no folder for the executor’s socket: ${reasons.join('; ')}`);
}
