import { type Json, JsonDepthError, parseJson as parseExactly } from '../../../lib/json/exact-json.js';
import { RocmForgeError } from '../../../shared/errors.js';
import { messagesRequest } from './anthropic/messages-request.js';
import { FieldPolicy } from './field-policy.js';
import { llamaCompletionRequest, llamaInfillRequest } from './llama/llama-completion-request.js';
import { ollamaChatRequest, ollamaGenerateRequest } from './ollama/ollama-request.js';
import { chatRequest } from './openai/chat-request.js';
import { completionRequest } from './openai/completion-request.js';
import { responsesRequest } from './openai/responses-request.js';
import type { AnswerKind, FormDefaults, JsonGeneration, ReadGeneration } from './request.js';

const decoder = new TextDecoder('utf-8', { fatal: true });

/**
 * Reads a body without loss, see {@link parseExactly}.
 *
 * @throws RocmForgeError `MALFORMED_MESSAGE` for bytes that are not JSON in UTF-8, or nested too deep; then with the field
 */
export function parseJson(bytes: Uint8Array): Json {
  try {
    return parseExactly(decoder.decode(bytes));
  } catch (error) {
    const { message } = error as Error;
    if (error instanceof JsonDepthError) {
      const { member } = error;
      const field = member === undefined ? undefined : { field: member.slice(0, MOST_NAME) };
      const what = field === undefined ? 'the body' : field.field;
      throw new RocmForgeError('MALFORMED_MESSAGE', `${what} is ${message}; reduce the nesting`, field);
    }
    throw new RocmForgeError('MALFORMED_MESSAGE', `the body is not JSON in UTF-8: ${message}`);
  }
}

/** Characters of a field's name that are reported. */
const MOST_NAME = 64;

const QUIET: FormDefaults = { verbose: false };

type Reader = (body: unknown, policy: FieldPolicy, defaults: FormDefaults) => JsonGeneration;

const READERS: Readonly<Record<AnswerKind, Reader>> = {
  chat: chatRequest,
  completion: completionRequest,
  llama: llamaCompletionRequest,
  infill: llamaInfillRequest,
  messages: messagesRequest,
  responses: responsesRequest,
  ollamaChat: ollamaChatRequest,
  ollamaGenerate: ollamaGenerateRequest,
};

/**
 * Reads a request of a form: parsed JSON in, a message of the public API out. Depends on nothing else, so that large ones are read
 * in another thread.
 *
 * @throws RocmForgeError `INVALID_FIELD`, `NOT_IMPLEMENTED`
 */
export function readGeneration(kind: AnswerKind, body: unknown, defaults = QUIET): ReadGeneration {
  const policy = new FieldPolicy(defaults.strictFields ?? false);
  return { ...READERS[kind](body, policy, defaults), ignored: policy.ignored, names: policy.fieldNames };
}
