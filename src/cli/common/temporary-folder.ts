import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { removeAtExit, removeOnSignals } from '../../shared/exit-removal.js';

let isWatching = false;

/**
 * Makes a folder for one run of a command, which is removed when the command ends, also by a signal.
 *
 * @param prefix beginning of its name
 * @returns its path, and what removes it before
 */
export function temporaryFolder(prefix = 'rocmforge-'): { readonly folder: string; readonly remove: () => void } {
  if (!isWatching) removeOnSignals();
  isWatching = true;
  const folder = mkdtempSync(path.join(os.tmpdir(), prefix));
  const forget = removeAtExit(folder);
  return {
    folder,
    remove: () => {
      rmSync(folder, { recursive: true, force: true });
      forget();
    },
  };
}
