import { randomUUID } from 'node:crypto';

/** Characters that are safe in a header and in a log line. */
const IS_VALID = /^[\x21-\x7e]{1,128}$/;

/** The id of a request: the client's where it is one word of printable ASCII, of at most 128 characters; else a new one. */
export function requestIdOf(given: string | readonly string[] | undefined): string {
  return typeof given === 'string' && IS_VALID.test(given) ? given : randomUUID();
}
