import type { GrpcCodeName, RocmForgeError } from '../../../shared/errors.js';
import type { ErrorForm } from './request.js';

/** HTTP's status of each code, as google.rpc.Code has it, but that what is not built is the request's fault: clients repeat what ends with 5xx. */
const STATUS: Readonly<Record<GrpcCodeName, number>> = {
  INVALID_ARGUMENT: 400,
  FAILED_PRECONDITION: 400,
  UNIMPLEMENTED: 400,
  UNAUTHENTICATED: 401,
  NOT_FOUND: 404,
  RESOURCE_EXHAUSTED: 429,
  UNAVAILABLE: 503,
  DEADLINE_EXCEEDED: 504,
  INTERNAL: 500,
};

/** Reasons whose status says more than their code's. */
const STATUS_OF_REASON: Readonly<Record<string, number>> = {
  // Clients repeat a request that ends with 429; this one would end so again.
  CONSTRAINT_TOO_SLOW: 400,
  METHOD_NOT_ALLOWED: 405,
  SLOW_SENDER: 408,
  MESSAGE_TOO_LARGE: 413,
  CONTENT_TYPE_UNSUPPORTED: 415,
  HOST_NOT_SERVED: 421,
  SWITCHED_OFF: 501,
  // Not the request's fault: a proxy finds another server that has the model.
  MODEL_FILE_CHANGED: 503,
};

/** Errors of which HTTP knows more than their reasons say. */
const STATUS_OF_ERROR = new WeakMap<RocmForgeError, number>();

/** The error, answered with a status of its own. */
export function withStatus(error: RocmForgeError, status: number): RocmForgeError {
  STATUS_OF_ERROR.set(error, status);
  return error;
}

/** The HTTP status of an error. */
export function statusOf(error: RocmForgeError): number {
  return STATUS_OF_ERROR.get(error) ?? STATUS_OF_REASON[error.reason] ?? STATUS[error.code];
}

const TYPE_OF_STATUS: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
  503: 'unavailable_error',
};

const typeOf = (status: number): string =>
  TYPE_OF_STATUS[status] ?? (status < 500 ? 'invalid_request_error' : 'server_error');

/** llama.cpp's error for a prompt that does not fit, which clients look for. */
function contextOf({ reason, metadata }: RocmForgeError): Readonly<Record<string, unknown>> {
  const { prompt_tokens: tokens, context_length: context } = metadata;
  if (reason !== 'PROMPT_TOO_LONG' || tokens === undefined) return {};
  return { type: 'exceed_context_size_error', n_prompt_tokens: Number(tokens), n_ctx: Number(context) };
}

/** In every form: the field, and the limit that was reached. */
function placeOf({ metadata: { field, limit } }: RocmForgeError): Readonly<Record<string, string | null>> {
  return { param: field ?? null, ...(limit === undefined ? {} : { limit }) };
}

/** The words that OpenAI's clients know. */
const CODES: Readonly<Record<string, string>> = {
  MODEL_NOT_FOUND: 'model_not_found',
  PROMPT_TOO_LONG: 'context_length_exceeded',
};

/** OpenAI's form; `code` is the reason, `param` the field. */
export const openAiError: ErrorForm = (error) => {
  const status = statusOf(error);
  const { message, reason } = error;
  const code = CODES[reason] ?? reason;
  return { status, body: { error: { message, type: typeOf(status), ...placeOf(error), code, ...contextOf(error) } } };
};

/** llama.cpp's form: `code` is the HTTP status. */
export const llamaError: ErrorForm = (error) => {
  const status = statusOf(error);
  const { message, reason } = error;
  const type = error.code === 'UNIMPLEMENTED' ? 'not_supported_error' : typeOf(status);
  return {
    status,
    body: { error: { code: status, message, type, reason, ...placeOf(error), ...contextOf(error) } },
  };
};

const ANTHROPIC_TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
};

/** Anthropic's form; `reason` and `param` are beside what it has. */
export const anthropicError: ErrorForm = (error) => {
  const status = statusOf(error);
  const { message, reason } = error;
  const type = ANTHROPIC_TYPES[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error');
  return { status, body: { type: 'error', error: { type, message, reason, ...placeOf(error) } } };
};

/** Ollama's form; `reason` and `param` are additions. */
export const ollamaError: ErrorForm = (error) => {
  const { message, reason } = error;
  return { status: statusOf(error), body: { error: message, reason, ...placeOf(error) } };
};

const TEI_TYPES: Readonly<Record<number, string>> = { 429: 'Overloaded', 503: 'Unhealthy' };

/** Text Embeddings Inference's form; `reason` and `param` are additions. */
export const teiError: ErrorForm = (error) => {
  const status = statusOf(error);
  const { message, reason } = error;
  const type = TEI_TYPES[status] ?? (status < 500 ? 'Validation' : 'Backend');
  return { status, body: { error: message, error_type: type, reason, ...placeOf(error) } };
};
