import type { Logger } from '../../../shared/log.js';

/** After which it is said that nobody answers at an address; an executor there may still be starting. */
const TELL_MS = 500;

/**
 * Logs that nobody answers at an executor's address, unless told in time that somebody has.
 *
 * @param triedForMs how long it is tried
 * @returns to be called when there is an answer, or none to be waited for
 */
export function tellSilence(address: string, triedForMs: number, log: Logger): () => void {
  const late = setTimeout(() => {
    log.warn({ address }, `no executor answers yet; it is tried for ${triedForMs / 1000} s`);
  }, TELL_MS);
  return () => clearTimeout(late);
}
