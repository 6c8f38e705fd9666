import { GgufError } from '../lib/gguf/error.js';
import { GrammarError } from '../lib/grammar/refusal.js';
import { cut } from '../lib/support/quoted.js';
import { TokenizerError } from '../lib/tokenizer/error.js';

/**
 * The one registry of everything that can go wrong and be told to somebody.
 *
 * A reason is stable and machine-readable: it is the `reason` of the `google.rpc.ErrorInfo` a client receives, the
 * `reason` field of a log line, and the word a command prints before its message. `code` is the gRPC status that
 * carries it; `retryable` says whether the same request may succeed later without being changed.
 */
export interface ErrorEntry {
  readonly code: GrpcCodeName;
  readonly retryable: boolean;
}

export type GrpcCodeName =
  | 'INVALID_ARGUMENT'
  | 'NOT_FOUND'
  | 'RESOURCE_EXHAUSTED'
  | 'FAILED_PRECONDITION'
  | 'UNAUTHENTICATED'
  | 'UNIMPLEMENTED'
  | 'UNAVAILABLE'
  | 'DEADLINE_EXCEEDED'
  | 'INTERNAL';

export const ERRORS = {
  // A request that can never work as it stands. `field` in the metadata names the message field.
  INVALID_FIELD: { code: 'INVALID_ARGUMENT', retryable: false },
  MALFORMED_MESSAGE: { code: 'INVALID_ARGUMENT', retryable: false },
  MESSAGE_TOO_LARGE: { code: 'RESOURCE_EXHAUSTED', retryable: false },
  PROMPT_TOO_LONG: { code: 'INVALID_ARGUMENT', retryable: false },
  TOKEN_OUT_OF_RANGE: { code: 'INVALID_ARGUMENT', retryable: false },
  MODEL_NOT_FOUND: { code: 'NOT_FOUND', retryable: false },
  RESPONSE_NOT_FOUND: { code: 'NOT_FOUND', retryable: false },
  STREAM_NOT_FOUND: { code: 'NOT_FOUND', retryable: false },
  STREAM_CANCELLED: { code: 'FAILED_PRECONDITION', retryable: false },
  PATH_NOT_FOUND: { code: 'NOT_FOUND', retryable: false },
  METHOD_NOT_ALLOWED: { code: 'UNIMPLEMENTED', retryable: false },
  HOST_NOT_SERVED: { code: 'INVALID_ARGUMENT', retryable: false },
  CONTENT_TYPE_UNSUPPORTED: { code: 'INVALID_ARGUMENT', retryable: false },
  NOT_IMPLEMENTED: { code: 'UNIMPLEMENTED', retryable: false },
  SWITCHED_OFF: { code: 'UNIMPLEMENTED', retryable: false },

  // Constraints on an answer. `at` in the metadata is a JSON pointer, an offset, or a line and column; `keyword` what is there.
  CONSTRAINT_INVALID: { code: 'INVALID_ARGUMENT', retryable: false },
  CONSTRAINT_UNSUPPORTED: { code: 'INVALID_ARGUMENT', retryable: false },
  CONSTRAINT_TOO_SLOW: { code: 'RESOURCE_EXHAUSTED', retryable: false },

  // Callers and their limits. `limit` in the metadata of RATE_LIMITED names the limit, as in the file of limits.
  CREDENTIAL_MISSING: { code: 'UNAUTHENTICATED', retryable: false },
  CREDENTIAL_INVALID: { code: 'UNAUTHENTICATED', retryable: false },
  CREDENTIAL_EXPIRED: { code: 'UNAUTHENTICATED', retryable: false },
  RATE_LIMITED: { code: 'RESOURCE_EXHAUSTED', retryable: true },

  // Text in and out.
  TOKENIZER_UNSUPPORTED: { code: 'FAILED_PRECONDITION', retryable: false },
  TOKENIZER_INVALID: { code: 'FAILED_PRECONDITION', retryable: false },
  CHAT_TEMPLATE_MISSING: { code: 'FAILED_PRECONDITION', retryable: false },
  CHAT_TEMPLATE_FAILED: { code: 'INVALID_ARGUMENT', retryable: false },
  TEXT_TOO_SLOW: { code: 'RESOURCE_EXHAUSTED', retryable: true },

  // Model files.
  MODEL_FILE_UNREADABLE: { code: 'NOT_FOUND', retryable: false },
  GGUF_INVALID: { code: 'FAILED_PRECONDITION', retryable: false },
  MODEL_UNSUPPORTED: { code: 'FAILED_PRECONDITION', retryable: false },
  MODEL_FILE_CHANGED: { code: 'FAILED_PRECONDITION', retryable: false },

  // Models on a hub, and their way to this disk.
  HUB_REFUSED: { code: 'UNAUTHENTICATED', retryable: false },
  HUB_BUSY: { code: 'RESOURCE_EXHAUSTED', retryable: true },
  HUB_UNAVAILABLE: { code: 'UNAVAILABLE', retryable: true },
  HUB_OFFLINE: { code: 'FAILED_PRECONDITION', retryable: false },
  HUB_PROTOCOL: { code: 'INTERNAL', retryable: false },
  CHECKSUM_MISMATCH: { code: 'INTERNAL', retryable: true },
  DISK_FULL: { code: 'RESOURCE_EXHAUSTED', retryable: true },

  // Load and life.
  QUEUE_FULL: { code: 'RESOURCE_EXHAUSTED', retryable: true },
  OUT_OF_MEMORY: { code: 'RESOURCE_EXHAUSTED', retryable: true },
  MODEL_LOADING: { code: 'UNAVAILABLE', retryable: true },
  MODEL_UNLOADED: { code: 'UNAVAILABLE', retryable: true },
  MODEL_NOT_LOADED: { code: 'FAILED_PRECONDITION', retryable: false },
  /** Printed by commands that call a gateway; no gateway sends it. */
  GATEWAY_UNAVAILABLE: { code: 'UNAVAILABLE', retryable: true },
  EXECUTOR_UNAVAILABLE: { code: 'UNAVAILABLE', retryable: true },
  EXECUTOR_BUSY: { code: 'UNAVAILABLE', retryable: true },
  EXECUTOR_PROTOCOL: { code: 'INTERNAL', retryable: false },
  ARITHMETIC_CHANGED: { code: 'UNAVAILABLE', retryable: true },
  SHUTTING_DOWN: { code: 'UNAVAILABLE', retryable: true },
  REQUEST_QUARANTINED: { code: 'INTERNAL', retryable: false },
  NON_FINITE_LOGITS: { code: 'INTERNAL', retryable: false },
  DEADLINE_EXCEEDED: { code: 'DEADLINE_EXCEEDED', retryable: true },
  SLOW_READER: { code: 'RESOURCE_EXHAUSTED', retryable: true },
  SLOW_SENDER: { code: 'RESOURCE_EXHAUSTED', retryable: true },

  // Devices, code objects, the installation.
  DEVICE_UNAVAILABLE: { code: 'FAILED_PRECONDITION', retryable: false },
  KERNELS_INVALID: { code: 'FAILED_PRECONDITION', retryable: false },
  SYSTEM_LIMIT: { code: 'FAILED_PRECONDITION', retryable: false },
  ADDRESS_IN_USE: { code: 'FAILED_PRECONDITION', retryable: false },
  INVALID_OPTION: { code: 'INVALID_ARGUMENT', retryable: false },
  INTERNAL: { code: 'INTERNAL', retryable: false },
} as const satisfies Record<string, ErrorEntry>;

export type ErrorReason = keyof typeof ERRORS;

/** Quoted values from outside are cut by `quoted.ts`; this is for those that are not. */
const MOST_MESSAGE_CHARACTERS = 8192;

/** An error somebody outside is told about. Anything else that is thrown is a defect and surfaces as `INTERNAL`. */
export class RocmForgeError extends Error {
  override readonly name = 'RocmForgeError';

  /**
   * @param reason   entry of {@link ERRORS}
   * @param message  one sentence: what is wrong, with the offending value, and what to do; cut to 8,192 characters
   * @param metadata extra pairs for `google.rpc.ErrorInfo`, such as `{ field: 'sampling.top_p' }`
   */
  constructor(
    readonly reason: ErrorReason,
    message: string,
    readonly metadata: Readonly<Record<string, string>> = {},
    options?: ErrorOptions,
  ) {
    super(cut(message, MOST_MESSAGE_CHARACTERS), options);
  }

  get code(): GrpcCodeName {
    return ERRORS[this.reason].code;
  }

  get retryable(): boolean {
    return ERRORS[this.reason].retryable;
  }
}

/** An error with a reason, of the service or of a library, as a {@link RocmForgeError}; undefined for any other. */
export function typedError(error: unknown): RocmForgeError | undefined {
  if (error instanceof RocmForgeError) return error;
  const isOfLibrary = error instanceof GgufError || error instanceof GrammarError || error instanceof TokenizerError;
  if (!isOfLibrary) return undefined;
  return new RocmForgeError(error.reason, error.message, { ...error.metadata }, { cause: error.cause });
}

/** The error as a {@link RocmForgeError}; a stranger becomes `INTERNAL` and keeps its cause. */
export function asRocmForgeError(error: unknown): RocmForgeError {
  const typed = typedError(error);
  if (typed !== undefined) return typed;
  const message = error instanceof Error ? error.message : String(error);
  return new RocmForgeError('INTERNAL', message, {}, { cause: error });
}
