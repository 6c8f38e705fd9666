import { Metadata, type ServiceError, type StatusObject, status } from '@grpc/grpc-js';
import { asRocmForgeError, ERRORS, type ErrorReason, RocmForgeError } from '../errors.js';
import type { Any } from '../generated/google/protobuf/any.js';
import { BadRequest, ErrorInfo, RetryInfo } from '../generated/google/rpc/error_details.js';
import { Status } from '../generated/google/rpc/status.js';

/** `google.rpc.ErrorInfo.domain` of every error sent from here. */
export const ERROR_DOMAIN = 'rocmforge';

const DETAILS_KEY = 'grpc-status-details-bin';
const RETRY_DELAY_MS = 'retry_delay_ms';

/*
 * A status travels in trailers, and a client whose limit they exceed gives up not the call but the connection, with the
 * streams of everybody who shares it. The least limit in use is 8 KiB. The message is there three times (percent-encoded,
 * and twice in base64), the metadata once.
 */
const MAX_QUOTED_CHARACTERS = 64;
const MAX_MESSAGE_BYTES = 1024;
const MAX_METADATA_BYTES = 1024;
const MAX_METADATA_VALUE_BYTES = 256;
const ELLIPSIS_BYTES = encodeURI('…').length;
/** Metadata that clients act on; they are never left out. */
const ESSENTIAL_KEYS = ['field', RETRY_DELAY_MS];

/**
 * The gRPC status of an error: code and message, and in `grpc-status-details-bin` an ErrorInfo with the reason and
 * metadata, a BadRequest where the metadata name a `field`, a RetryInfo where they hold `retry_delay_ms`. What the message
 * quotes is cut to 64 characters, the message and the metadata to 1 KiB each.
 */
export function toStatus(thrown: unknown): StatusObject {
  const error = asRocmForgeError(thrown);
  const code = status[error.code];
  const message = shortened(error.message);
  const metadata = shortenedMetadata(error.metadata);
  const { field } = metadata;
  const retryDelayMs = Number(metadata[RETRY_DELAY_MS] ?? 0);
  const details: Any[] = [
    pack('google.rpc.ErrorInfo', ErrorInfo.encode({ reason: error.reason, domain: ERROR_DOMAIN, metadata })),
  ];
  if (field !== undefined) {
    details.push(
      pack(
        'google.rpc.BadRequest',
        BadRequest.encode({ fieldViolations: [{ field, description: message, reason: error.reason }] }),
      ),
    );
  }
  if (retryDelayMs > 0) {
    const retryDelay = { seconds: BigInt(Math.floor(retryDelayMs / 1000)), nanos: (retryDelayMs % 1000) * 1_000_000 };
    details.push(pack('google.rpc.RetryInfo', RetryInfo.encode({ retryDelay })));
  }
  const trailers = new Metadata();
  trailers.set(DETAILS_KEY, Buffer.from(Status.encode({ code, message, details }).finish()));
  return { code, details: message, metadata: trailers };
}

/** The error a status was made from, as far as it can be told; a status from elsewhere keeps its message. */
export function fromServiceError(error: ServiceError): RocmForgeError {
  const info = errorInfo(error);
  if (info !== undefined && info.reason in ERRORS) {
    return new RocmForgeError(info.reason as ErrorReason, error.details, info.metadata, { cause: error });
  }
  const reason: ErrorReason = error.code === status.UNAVAILABLE ? 'EXECUTOR_UNAVAILABLE' : 'INTERNAL';
  return new RocmForgeError(reason, error.details || error.message, {}, { cause: error });
}

/** The ErrorInfo of a status, if it carries one that can be read. */
export function errorInfo(error: Pick<StatusObject, 'metadata'>): ErrorInfo | undefined {
  return errorDetails(error).info;
}

/** Details of google/rpc/error_details.proto in a status, as far as they are sent from here. */
export interface ErrorDetails {
  readonly info?: ErrorInfo;
  readonly badRequest?: BadRequest;
  readonly retryInfo?: RetryInfo;
}

/** The details of a status; none, where it carries none or they cannot be read. */
export function errorDetails(error: Pick<StatusObject, 'metadata'>): ErrorDetails {
  const [bytes] = error.metadata.get(DETAILS_KEY);
  if (!(bytes instanceof Buffer)) return {};
  try {
    const { details } = Status.decode(bytes);
    const find = <T>(name: string, type: { decode(bytes: Uint8Array): T }): T | undefined => {
      const packed = details.find(({ typeUrl }) => typeUrl.endsWith(`/google.rpc.${name}`));
      return packed && type.decode(packed.value);
    };
    const info = find('ErrorInfo', ErrorInfo);
    const badRequest = find('BadRequest', BadRequest);
    const retryInfo = find('RetryInfo', RetryInfo);
    return { ...(info && { info }), ...(badRequest && { badRequest }), ...(retryInfo && { retryInfo }) };
  } catch {
    return {};
  }
}

/** A message as it may be sent: valid Unicode, short quotations, at most 1 KiB when it is percent-encoded. */
function shortened(message: string): string {
  const quotation = new RegExp(`"([^"]{${MAX_QUOTED_CHARACTERS}})[^"]+("|$)`, 'g');
  return cutTo(message.replace(quotation, '"$1…"'), MAX_MESSAGE_BYTES);
}

/** Metadata as they may be sent: what clients act on first, then what fits. */
function shortenedMetadata(metadata: Readonly<Record<string, string>>): Record<string, string> {
  const kept: Record<string, string> = {};
  let left = MAX_METADATA_BYTES;
  for (const key of new Set([...ESSENTIAL_KEYS, ...Object.keys(metadata)])) {
    const value = metadata[key];
    if (value === undefined) continue;
    const short = cutTo(value, MAX_METADATA_VALUE_BYTES);
    const bytes = Buffer.byteLength(key) + Buffer.byteLength(short);
    if (bytes > left) continue;
    left -= bytes;
    kept[key] = short;
  }
  return kept;
}

/** The text's beginning, of at most so many percent-encoded bytes; lone surrogates, which have no encoding, become U+FFFD. */
function cutTo(text: string, most: number): string {
  const wellFormed = text.slice(0, most).replace(/\p{Surrogate}/gu, '\ufffd');
  let bytes = 0;
  let cut = '';
  for (const character of wellFormed) {
    bytes += encodeURI(character).length;
    if (bytes > most - ELLIPSIS_BYTES) return `${cut}…`;
    cut += character;
  }
  return wellFormed.length < text.length ? `${cut}…` : cut;
}

function pack(name: string, writer: { finish(): Uint8Array }): Any {
  return { typeUrl: `type.googleapis.com/${name}`, value: Buffer.from(writer.finish()) };
}
