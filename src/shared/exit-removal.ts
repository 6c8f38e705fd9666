import { lstatSync, rmSync } from 'node:fs';

/** Device and inode of each file or folder by its path: another process may have replaced it. */
const removals = new Map<string, string>();
let isWatching = false;

/**
 * Removes a file or folder when this process exits, by `process.exit` at any moment, too.
 *
 * @returns to be called when it is removed before
 */
export function removeAtExit(path: string): () => void {
  if (!isWatching) process.on('exit', removeAll);
  isWatching = true;
  const identity = identityOf(path);
  if (identity !== undefined) removals.set(path, identity);
  return () => removals.delete(path);
}

/** Has signals end this process as they do without a handler, but after the removals of {@link removeAtExit}. */
export function removeOnSignals(): void {
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    process.once(signal, () => {
      removeAll();
      process.kill(process.pid, signal);
    });
  }
}

function removeAll(): void {
  for (const [path, identity] of removals) {
    if (identityOf(path) !== identity) continue;
    try {
      rmSync(path, { recursive: true, force: true });
    } catch {
      // The next start removes it.
    }
  }
  removals.clear();
}

function identityOf(path: string): string | undefined {
  try {
    const { dev, ino } = lstatSync(path);
    return `${dev} ${ino}`;
  } catch {
    return undefined;
  }
}
