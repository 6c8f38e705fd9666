import { closeSync, fstatSync, openSync, realpathSync, rmSync, writeFileSync } from 'node:fs';

/** Mode of opening an output file. */
export interface OutputFileOptions {
  /** `wx`: only a file that does not exist yet; default: `w`, a file that exists is overwritten. */
  readonly flag?: 'w' | 'wx';
  /** Permissions of a new file; default: those of the process. */
  readonly mode?: number;
}

/**
 * Opens a file to be written and closes it after `write`. If that fails, a regular file is removed: half of a file is taken for all of it.
 *
 * @param write writes to the descriptor
 * @returns result of `write`
 * @throws the file system's error, or what `write` throws
 */
export function withOutputFile<T>(
  path: string,
  write: (descriptor: number) => T,
  { flag = 'w', mode }: OutputFileOptions = {},
): T {
  const descriptor = openSync(path, flag, mode);
  let isOpen = true;
  const isRegular = fstatSync(descriptor).isFile();
  try {
    const result = write(descriptor);
    isOpen = false;
    // A file on a server may report here that its disk is full.
    closeSync(descriptor);
    return result;
  } catch (error) {
    if (isOpen) closeSync(descriptor);
    if (isRegular) rmSync(realpathSync(path), { force: true });
    throw error;
  }
}

/**
 * Writes a text to a file, all of it or nothing.
 *
 * @throws the file system's error
 */
export function writeOutputFile(path: string, text: string, options?: OutputFileOptions): void {
  withOutputFile(path, (descriptor) => writeFileSync(descriptor, text), options);
}
