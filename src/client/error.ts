import { type ServiceError, status } from '@grpc/grpc-js';
import { errorDetails } from '../shared/grpc/status.js';

/** The name of a gRPC status code, such as `INVALID_ARGUMENT`. */
export type GrpcCode = keyof typeof status;

/** Data of an error in addition to its message. */
export interface ClientErrorDetails {
  readonly reason?: string | undefined;
  readonly field?: string | undefined;
  readonly retryDelayMs?: number | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
}

/** A call that failed, as the gateway or the connection to it says. Its `cause` is the error of `@grpc/grpc-js`. */
export class RocmForgeClientError extends Error {
  override readonly name = 'RocmForgeClientError';
  /** Why, stable and for a program to read, such as `QUEUE_FULL`; undefined where no gateway has answered. */
  readonly reason: string | undefined;
  /** The path of the wrong field, such as `sampling.top_p`. */
  readonly field: string | undefined;
  /** After how many milliseconds trying the same again may help; undefined where that is not known to help. */
  readonly retryDelayMs: number | undefined;
  /** The pairs of the `google.rpc.ErrorInfo`. */
  readonly metadata: Readonly<Record<string, string>>;

  constructor(
    readonly code: GrpcCode,
    message: string,
    { reason, field, retryDelayMs, metadata = {} }: ClientErrorDetails,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.reason = reason;
    this.field = field;
    this.retryDelayMs = retryDelayMs;
    this.metadata = metadata;
  }
}

/** The error of a call that `@grpc/grpc-js` has ended. */
export function clientError(cause: ServiceError): RocmForgeClientError {
  const { info, badRequest, retryInfo } = errorDetails(cause);
  const delay = retryInfo?.retryDelay;
  const details = {
    reason: info?.reason,
    field: badRequest?.fieldViolations[0]?.field,
    retryDelayMs: delay && Number(delay.seconds) * 1000 + delay.nanos / 1e6,
    metadata: info?.metadata,
  };
  return new RocmForgeClientError(status[cause.code] as GrpcCode, cause.details, details, { cause });
}
