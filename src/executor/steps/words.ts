import { protocolError } from './protocol-error.js';

/** Little-endian uint32s of a `bytes` field. @throws RocmForgeError `EXECUTOR_PROTOCOL` */
export function words(bytes: Uint8Array): Uint32Array {
  if (bytes.byteLength % 4 !== 0) throw protocolError(`${bytes.byteLength} bytes are not a whole number of words`);
  // A copy: the message's bytes need not be aligned.
  return new Uint32Array(Uint8Array.from(bytes).buffer);
}
