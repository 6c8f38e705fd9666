import path from 'node:path';
import { RocmForgeError } from '../../shared/errors.js';
import { BUSY_RETRY_MS, PROBE_INTERVAL_MS } from './link/supervision.js';

/** The folders of an absolute path, up to the last name in it; not those of a URL. */
const FOLDERS = /(?<![\w.:/])\/(?:[^\s/"';,:()]+\/)+/g;

/**
 * An error of this machine as clients may read it: of files there are only the names, since where they lie is not theirs to know.
 *
 * @param modelPath whose folder may have spaces in its name
 */
export function clientError(error: RocmForgeError, modelPath: string): RocmForgeError {
  const folder = path.dirname(modelPath);
  const named = path.isAbsolute(folder) ? error.message.replaceAll(`${folder}/`, '') : error.message;
  return new RocmForgeError(error.reason, named.replace(FOLDERS, ''), error.metadata, { cause: error });
}

/** Error for requests while no executor is available, with when the next one may serve. */
export function withoutExecutor(cause: RocmForgeError | undefined): RocmForgeError {
  // One that is in use is retried as often as before; one that fails repeatedly is not.
  const [why, often, retryMs] =
    cause?.reason === 'EXECUTOR_BUSY'
      ? [cause.message, `${BUSY_RETRY_MS} ms`, 2 * BUSY_RETRY_MS]
      : ['the executor repeatedly ended or did not answer', `${PROBE_INTERVAL_MS / 1000} s`, PROBE_INTERVAL_MS];
  return new RocmForgeError('EXECUTOR_UNAVAILABLE', `${why}; it is retried every ${often}`, {
    retry_delay_ms: String(retryMs),
  });
}
