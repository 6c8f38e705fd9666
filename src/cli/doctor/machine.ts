import { closeSync, constants, openSync, readdirSync, readFileSync, statSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

/** Permissions of a file. */
export interface Ownership {
  /** Its nine permission bits. */
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
}

/** View of a machine for the doctor; tests give one that does not exist. Paths are absolute. */
export interface Machine {
  /** A small file's text without white space at its ends; undefined where there is none or it cannot be read. */
  read(file: string): string | undefined;
  /** The names in a folder, in order; none where there is no such folder. */
  list(folder: string): readonly string[];
  /** Undefined where there is no such file. */
  ownership(file: string): Ownership | undefined;
  /** Opens for reading and writing. @returns the name of the error, such as `EACCES`; undefined when it can be opened */
  refusal(file: string): string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly uid: number;
  /** All groups of this process. */
  readonly groups: readonly number[];
  readonly userName: string;
  readonly kernelRelease: string;
}

/**
 * The machine that this process runs on.
 *
 * @param root the folder in place of `/`
 */
export function machineAt(root = '/'): Machine {
  const at = (file: string): string => path.join(root, file);
  const or = <T>(otherwise: T, look: () => T): T => {
    try {
      return look();
    } catch {
      return otherwise;
    }
  };
  return {
    read: (file) => or(undefined, () => readFileSync(at(file), 'latin1').trim()),
    list: (folder) => or<string[]>([], () => readdirSync(at(folder)).sort()),
    ownership: (file) =>
      or(undefined, () => {
        const { mode, uid, gid } = statSync(at(file));
        return { mode: mode & 0o777, uid, gid };
      }),
    refusal: (file) => {
      try {
        closeSync(openSync(at(file), constants.O_RDWR | constants.O_NONBLOCK));
        return undefined;
      } catch (error) {
        return (error as NodeJS.ErrnoException).code ?? 'EIO';
      }
    },
    env: process.env,
    uid: process.getuid?.() ?? 0,
    groups: [...new Set([process.getgid?.() ?? 0, ...(process.getgroups?.() ?? [])])],
    userName: or('', () => os.userInfo().username),
    kernelRelease: os.release(),
  };
}
