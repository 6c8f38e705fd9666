import { BinaryReader } from '@bufbuild/protobuf/wire';
import { RocmForgeError } from '../errors.js';

/** Bits of a tag that are not the field's number. */
const WIRE_TYPE_BITS = 3;

/**
 * Reads messages of which every field is known: generated decoders skip what they do not know, or what has another type, and
 * the client would not learn that the server ignored them.
 */
class KnownFields extends BinaryReader {
  /** The last number that was read as such: where a field is skipped, its tag. */
  private last = 0;

  constructor(bytes: Uint8Array) {
    super(bytes);
    // The library has it on each reader, not in the class.
    const read = this.uint32;
    this.uint32 = () => {
      this.last = read.call(this);
      return this.last;
    };
  }

  /** @throws RocmForgeError `INVALID_FIELD` */
  override skip(): never {
    const field = String(this.last >>> WIRE_TYPE_BITS);
    const message = `the request has a field of number ${field}, or of another type under it, that this server does not know; remove it`;
    throw new RocmForgeError('INVALID_FIELD', message, { field });
  }
}

/**
 * Decodes a message of which every field is known.
 *
 * @param decode the generated decoder
 * @throws RocmForgeError `INVALID_FIELD` for a field that it does not have, by its number; what the decoder throws
 */
export function decodeKnown<T>(bytes: Uint8Array, decode: (reader: BinaryReader) => T): T {
  return decode(new KnownFields(bytes));
}
