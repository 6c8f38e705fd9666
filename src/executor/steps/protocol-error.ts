import { RocmForgeError } from '../../shared/errors.js';

/** The gateway broke the protocol. */
export function protocolError(what: string): RocmForgeError {
  return new RocmForgeError('EXECUTOR_PROTOCOL', `invalid step: ${what}`);
}
