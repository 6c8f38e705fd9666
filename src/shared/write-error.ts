import { RocmForgeError } from './errors.js';

/**
 * The error of an output that cannot be written.
 *
 * @param output name of the output in the message: `--output a.gguf`
 * @param cause error of the system call
 * @returns `DISK_FULL`, `SYSTEM_LIMIT` for a limit of file sizes, otherwise `INVALID_OPTION` with the system's message
 */
export function writeError(output: string, cause: unknown): RocmForgeError {
  const { code, message } = cause as NodeJS.ErrnoException;
  switch (code) {
    case 'ENOSPC':
    case 'EDQUOT': {
      const what = code === 'ENOSPC' ? 'no space is left on its disk' : 'the disk quota of this user is used up';
      return new RocmForgeError(
        'DISK_FULL',
        `${output} cannot be written: ${what}; free space, or write elsewhere`,
        {},
        { cause },
      );
    }
    case 'EFBIG': {
      const what =
        'it would be larger than this process may write; raise the limit (ulimit -f, LimitFSIZE of a systemd unit)';
      return new RocmForgeError('SYSTEM_LIMIT', `${output} cannot be written: ${what}`, {}, { cause });
    }
    case 'ENOENT':
    case 'ENOTDIR':
      return new RocmForgeError(
        'INVALID_OPTION',
        `${output} cannot be written: its folder does not exist`,
        {},
        { cause },
      );
    default:
      return new RocmForgeError('INVALID_OPTION', `${output} cannot be written: ${message}`, {}, { cause });
  }
}

/**
 * Runs what writes an output.
 *
 * @throws RocmForgeError as {@link writeError} for errors of the system; other errors as they are
 */
export function outputOf<T>(output: string, write: () => T): T {
  try {
    return write();
  } catch (error) {
    throw (error as NodeJS.ErrnoException).syscall === undefined ? error : writeError(output, error);
  }
}
