import { createHash, timingSafeEqual } from 'node:crypto';
import { RocmForgeError } from './errors.js';
import type { Logger } from './log.js';
import { type OptionFile, readOptionFile } from './option-file.js';
import { ReloadedFiles } from './reloaded-files.js';

const SECRET = /^[\x21-\x7e]{32,1024}$/;

/** A secret that a gateway and its executor share, in a file of one line; read again when the file changes. */
export type SharedSecret = ReloadedFiles<string>;

/** @throws RocmForgeError `INVALID_OPTION` for a file that holds no secret */
export function openSecret(file: OptionFile, log: Logger): SharedSecret {
  return new ReloadedFiles([file], ([text = '']) => parseSecret(file.path, text), log);
}

/**
 * The secret as it is now.
 *
 * @throws RocmForgeError `INVALID_OPTION` for a file that holds none
 */
export function readSecret(file: OptionFile): string {
  return parseSecret(file.path, readOptionFile(file).toString('utf8'));
}

/** True if two secrets are one; takes as long whatever they have in common. */
export function isSameSecret(one: string, other: string): boolean {
  const hash = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(hash(one), hash(other));
}

function parseSecret(path: string, text: string): string {
  const secret = text.replace(/\r?\n$/, '');
  if (SECRET.test(secret)) return secret;
  throw new RocmForgeError(
    'INVALID_OPTION',
    `${path} holds no secret: one line of 32 to 1024 characters without spaces, such as openssl rand -hex 32 writes`,
  );
}
