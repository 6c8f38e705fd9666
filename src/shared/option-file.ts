import { readFileSync } from 'node:fs';
import { RocmForgeError } from './errors.js';

/** A file that an option names. */
export interface OptionFile {
  /** The option without dashes: `token-file`. */
  readonly option: string;
  readonly path: string;
}

/** The error of an option's file that cannot be read; one that does not exist is named without the system call that failed. */
export function unreadableFile({ option, path }: OptionFile, cause: unknown): RocmForgeError {
  const { code, message } = cause as NodeJS.ErrnoException;
  const why = code === 'ENOENT' || code === 'ENOTDIR' ? 'does not exist' : `cannot be read: ${message}`;
  return new RocmForgeError('INVALID_OPTION', `--${option} ${path} ${why}`, { option }, { cause });
}

/**
 * Content of a file that an option names.
 *
 * @throws RocmForgeError `INVALID_OPTION` with the option, the path and the reason
 */
export function readOptionFile(file: OptionFile): Buffer {
  try {
    return readFileSync(file.path);
  } catch (error) {
    throw unreadableFile(file, error);
  }
}
