import { BinaryReader } from '@bufbuild/protobuf/wire';
import { decodeStrictly } from '../../shared/grpc/strict.js';
import { parseJson } from './http/json-forms.js';

/** Field 1, a string: `model` of every request of the public API that names one. */
const MODEL_TAG = (1 << 3) | 2;

/**
 * The model that a request of the public API asks for, from its bytes; empty where it names none. Nothing else is decoded.
 *
 * @throws RocmForgeError `MALFORMED_MESSAGE`
 */
export function modelNameOfMessage(bytes: Uint8Array): string {
  return decodeStrictly(bytes, (given) => {
    const reader = new BinaryReader(given);
    let name = '';
    while (reader.pos < reader.len) {
      const tag = reader.uint32();
      if (tag === MODEL_TAG) name = reader.string();
      else reader.skip(tag & 7, tag >>> 3);
    }
    return name;
  });
}

/**
 * The model that a JSON request asks for; empty where it names none, or not as a string, which its form refuses.
 *
 * @throws RocmForgeError `MALFORMED_MESSAGE`
 */
export function modelNameOfJson(bytes: Uint8Array): string {
  const body = parseJson(bytes);
  const { model } = (typeof body === 'object' && body !== null ? body : {}) as { readonly model?: unknown };
  return typeof model === 'string' ? model : '';
}
