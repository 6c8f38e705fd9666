import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { type DescMessage, fromBinary } from '@bufbuild/protobuf';
import { isJsonObject, JsonNumber, jsonText } from '../../../lib/json/exact-json.js';
import { RocmForgeError } from '../../../shared/errors.js';
import { parseJson } from './json-forms.js';

/** Flags and length in front of each message of a stream and of gRPC-Web. */
const ENVELOPE_BYTES = 5;
const COMPRESSED_FLAG = 1;

/** The headers of a call that say how its message is packed. */
export interface MessageHeaders {
  readonly contentType: string;
  /** The compression of a unary call of Connect, of a stream of Connect, and of gRPC-Web. */
  readonly encodings: readonly (string | undefined)[];
}

/**
 * Checks that the first message of a call in the binary format decodes: the library reports one that does not as a fault of the server.
 * Bytes that are packed wrongly are left to the library, which reports them as the client's.
 *
 * @param most bytes of the message once it is decompressed
 * @throws RocmForgeError `MALFORMED_MESSAGE`
 */
export function checkBinary(body: Uint8Array, headers: MessageHeaders, desc: DescMessage, most: number): void {
  if (!/^application\/(proto|connect\+proto|grpc-web(\+proto)?)\s*(;|$)/i.test(headers.contentType)) return;
  const message = messageOf(body, headers, most);
  if (message === undefined) return;
  try {
    fromBinary(desc, message);
  } catch (error) {
    throw new RocmForgeError('MALFORMED_MESSAGE', `the request is not a ${desc.typeName}: ${(error as Error).message}`);
  }
}

function messageOf(body: Uint8Array, { contentType, encodings }: MessageHeaders, most: number): Uint8Array | undefined {
  const isUnary = /^application\/proto\b/i.test(contentType);
  if (!isUnary && body.length < ENVELOPE_BYTES) return undefined;
  const packed = isUnary ? body : body.subarray(ENVELOPE_BYTES);
  const isCompressed = isUnary || ((body[0] as number) & COMPRESSED_FLAG) !== 0;
  const encoding = encodings.find((one) => one !== undefined && one !== 'identity');
  if (!isCompressed || encoding === undefined) return packed;
  try {
    if (encoding === 'gzip') return gunzipSync(packed, { maxOutputLength: most });
    return encoding === 'br' ? brotliDecompressSync(packed, { maxOutputLength: most }) : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The text of a JSON message for the library, which reads numbers as doubles: integers beyond them become strings, which the JSON of
 * protobuf takes for numbers of each type.
 *
 * @throws RocmForgeError `MALFORMED_MESSAGE`
 */
export function jsonForLibrary(bytes: Uint8Array): string {
  return jsonText(withTextIntegers(parseJson(bytes)));
}

function withTextIntegers(value: unknown): unknown {
  if (value instanceof JsonNumber) return /^-?\d{16,}$/.test(value.text) ? value.text : value;
  if (Array.isArray(value)) return value.map(withTextIntegers);
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(Object.keys(value).map((name) => [name, withTextIntegers(value[name])]));
}
