import { Metadata, type ServiceError, type StatusObject, status } from '@grpc/grpc-js';
import { asRocmForgeError, ERRORS, type ErrorReason, RocmForgeError } from '../errors.js';
import type { Any } from '../generated/google/protobuf/any.js';
import { BadRequest, ErrorInfo, RetryInfo, Status } from '../generated/google/rpc/error_details.js';

/** `google.rpc.ErrorInfo.domain` of every error sent from here. */
export const ERROR_DOMAIN = 'rocmforge';

const DETAILS_KEY = 'grpc-status-details-bin';
const RETRY_DELAY_MS = 'retry_delay_ms';

/**
 * The gRPC status of an error: code and message, and in `grpc-status-details-bin` an ErrorInfo with the reason and
 * metadata, a BadRequest where the metadata name a `field`, a RetryInfo where they hold `retry_delay_ms`.
 */
export function toStatus(thrown: unknown): Partial<StatusObject> {
  const error = asRocmForgeError(thrown);
  const code = status[error.code];
  const { field } = error.metadata;
  const retryDelayMs = Number(error.metadata[RETRY_DELAY_MS] ?? 0);
  const details: Any[] = [
    pack(
      'google.rpc.ErrorInfo',
      ErrorInfo.encode({ reason: error.reason, domain: ERROR_DOMAIN, metadata: { ...error.metadata } }),
    ),
  ];
  if (field !== undefined) {
    details.push(
      pack('google.rpc.BadRequest', BadRequest.encode({ fieldViolations: [{ field, description: error.message }] })),
    );
  }
  if (retryDelayMs > 0) {
    const retryDelay = { seconds: BigInt(Math.floor(retryDelayMs / 1000)), nanos: (retryDelayMs % 1000) * 1_000_000 };
    details.push(pack('google.rpc.RetryInfo', RetryInfo.encode({ retryDelay })));
  }
  const metadata = new Metadata();
  metadata.set(DETAILS_KEY, Buffer.from(Status.encode({ code, message: error.message, details }).finish()));
  return { code, details: error.message, metadata };
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
  const [bytes] = error.metadata.get(DETAILS_KEY);
  if (!(bytes instanceof Buffer)) return undefined;
  try {
    const packed = Status.decode(bytes).details.find((detail) => detail.typeUrl.endsWith('google.rpc.ErrorInfo'));
    return packed && ErrorInfo.decode(packed.value);
  } catch {
    return undefined;
  }
}

function pack(name: string, writer: { finish(): Uint8Array }): Any {
  return { typeUrl: `type.googleapis.com/${name}`, value: Buffer.from(writer.finish()) };
}
