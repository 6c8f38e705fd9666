import { jsonText, parseJson } from '../../../lib/json/exact-json.js';
import { type ErrorReason, RocmForgeError } from '../../../shared/errors.js';
import { Status } from '../../../shared/generated/google/rpc/status.js';
import { toStatus } from '../../../shared/grpc/status.js';
import { statusOf } from './errors.js';
import type { ErrorForm } from './request.js';

/** Flags and length in front of each message of a stream and of gRPC-Web. */
const ENVELOPE_BYTES = 5;
const COMPRESSED_FLAG = 1;
/** Flags of the last message of a stream. */
const CONNECT_END = 2;
const GRPC_WEB_END = 0x80;
const HTTP_OK = 200;

/** An error of Connect as JSON. */
interface ConnectJson {
  readonly code?: string;
  readonly message?: string;
  readonly details?: readonly unknown[];
}

/** Reasons of the errors that the library makes, which has codes alone; by their names and by their numbers. */
const REASONS: readonly (readonly [name: string, number: string, reason: ErrorReason])[] = [
  ['invalid_argument', '3', 'MALFORMED_MESSAGE'],
  ['deadline_exceeded', '4', 'DEADLINE_EXCEEDED'],
  ['resource_exhausted', '8', 'MESSAGE_TOO_LARGE'],
  ['unimplemented', '12', 'NOT_IMPLEMENTED'],
];

const madeByLibrary = (code: string | undefined, message: string): RocmForgeError => {
  const [, , reason = 'INTERNAL'] = REASONS.find(([name, number]) => name === code || number === code) ?? [];
  return new RocmForgeError(reason, message);
};

const packedStatus = (error: RocmForgeError): Uint8Array => {
  const [packed] = toStatus(error).metadata?.get('grpc-status-details-bin') ?? [];
  return packed as Buffer;
};

/** Details of an error as Connect has them in JSON: base64 without padding. */
const detailsOf = (error: RocmForgeError): readonly { readonly type: string; readonly value: string }[] =>
  Status.decode(packedStatus(error)).details.map(({ typeUrl, value }) => ({
    type: typeUrl.slice(typeUrl.lastIndexOf('/') + 1),
    value: base64(value),
  }));

const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64').replace(/=+$/, '');

/** Error format of calls that no protocol of the service accepts. */
export const connectErrorForm: ErrorForm = (error) => ({
  status: statusOf(error),
  body: { code: error.code.toLowerCase(), message: error.message, details: detailsOf(error) },
});

/**
 * Completes the pieces of a response. Errors that the library makes itself, of messages that do not decode, envelopes that are cut, or
 * deadlines, get the details that all errors have. The kind of a response is known from its head, so a piece of a stream costs one
 * comparison.
 *
 * @param head   status and content type of the response
 * @param onMade called with such an error
 */
export function errorCompleter(
  { status, type }: { readonly status: number; readonly type: string },
  onMade: (error: RocmForgeError) => void,
): (piece: Uint8Array) => Uint8Array {
  const completed = <Json extends ConnectJson>(json: Json): Json | undefined => {
    if ((json.details ?? []).length > 0) return undefined;
    const error = madeByLibrary(json.code, json.message ?? '');
    onMade(error);
    return { ...json, details: detailsOf(error) };
  };
  const asItIs = (piece: Uint8Array): Uint8Array => piece;
  if (/^application\/json\b/i.test(type)) {
    if (status === HTTP_OK) return asItIs;
    return (piece) => {
      const error = completed(parseJson(Buffer.from(piece).toString()) as ConnectJson);
      return error === undefined ? piece : Buffer.from(jsonText(error));
    };
  }
  /** Changes the text of the envelope that ends a stream; `undefined` leaves it. */
  const lastOf = (flag: number, change: (text: string) => string | undefined) => (piece: Uint8Array) => {
    const flags = piece[0] ?? 0;
    if ((flags & flag) === 0 || (flags & COMPRESSED_FLAG) !== 0 || piece.length < ENVELOPE_BYTES) return piece;
    const text = change(Buffer.from(piece.subarray(ENVELOPE_BYTES)).toString());
    return text === undefined ? piece : enveloped(flags, text);
  };
  if (/^application\/connect\+/i.test(type)) {
    return lastOf(CONNECT_END, (text) => {
      const end = parseJson(text) as { readonly error?: ConnectJson };
      const error = end.error && completed(end.error);
      return error === undefined ? undefined : jsonText({ ...end, error });
    });
  }
  if (!/^application\/grpc-web\b/i.test(type)) return asItIs;
  return lastOf(GRPC_WEB_END, (trailers) => {
    const [, code = '0'] = /^grpc-status: *(\d+)/im.exec(trailers) ?? [];
    if (code === '0' || /^grpc-status-details-bin:/im.test(trailers)) return undefined;
    const [, message = ''] = /^grpc-message: *(.*?)\r?$/im.exec(trailers) ?? [];
    const error = madeByLibrary(code, decodeURIComponent(message));
    onMade(error);
    return `${trailers}grpc-status-details-bin: ${base64(packedStatus(error))}\r\n`;
  });
}

function enveloped(flags: number, text: string): Uint8Array {
  const bytes = Buffer.from(text);
  const head = Buffer.alloc(ENVELOPE_BYTES);
  head[0] = flags;
  head.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([head, bytes]);
}
