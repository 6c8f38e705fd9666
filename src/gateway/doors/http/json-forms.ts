import { RocmForgeError } from '../../../shared/errors.js';
import { messagesRequest } from './anthropic/messages-request.js';
import { llamaCompletionRequest } from './llama/completion-request.js';
import { chatRequest } from './openai/chat-request.js';
import { completionRequest } from './openai/completion-request.js';
import type { AnswerKind, FormDefaults, JsonGeneration } from './request.js';

const decoder = new TextDecoder('utf-8', { fatal: true });

/** @throws RocmForgeError `MALFORMED_MESSAGE` */
export function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(decoder.decode(bytes));
  } catch (error) {
    throw new RocmForgeError('MALFORMED_MESSAGE', `the body is no JSON in UTF-8: ${(error as Error).message}`);
  }
}

const QUIET: FormDefaults = { verbose: false };

const READERS: Readonly<Record<AnswerKind, (body: unknown, defaults: FormDefaults) => JsonGeneration>> = {
  chat: chatRequest,
  completion: completionRequest,
  llama: llamaCompletionRequest,
  messages: messagesRequest,
};

/**
 * Reads a request of a form: parsed JSON in, a message of the public API out. Depends on nothing else, so that large ones are read
 * in another thread.
 *
 * @throws RocmForgeError `INVALID_FIELD`, `NOT_IMPLEMENTED`
 */
export function readGeneration(kind: AnswerKind, body: unknown, defaults = QUIET): JsonGeneration {
  return READERS[kind](body, defaults);
}
