import { RocmForgeError } from '../../shared/errors.js';
import type { ChatInput, GenerateStreamRequest } from '../../shared/generated/rocmforge/v1/inference.js';
import { demandsCall } from './answer.js';

/** A field of the public API that is not built yet, and when a request uses it. */
interface UnimplementedField {
  readonly field: string;
  /** What of the field it is; absent: all. */
  readonly what?: string;
  readonly isUsed: (request: GenerateStreamRequest) => boolean;
}

const ofChat =
  (isUsed: (chat: ChatInput) => boolean): UnimplementedField['isUsed'] =>
  ({ input }) =>
    input?.$case === 'chat' && isUsed(input.value);

/**
 * Every field that is refused because it is not built yet. A field that would be ignored silently is a wrong answer;
 * `docs/api.md` lists these, and the list shrinks.
 */
export const UNIMPLEMENTED_FIELDS: readonly UnimplementedField[] = [
  { field: 'chat.tool_choice', what: 'a call that must come', isUsed: ofChat(demandsCall) },
  { field: 'chat.tools.strict', isUsed: ofChat(({ tools }) => tools.some(({ strict }) => strict)) },
];

/** @throws RocmForgeError `NOT_IMPLEMENTED`, naming the field */
export function refuseUnimplemented(request: GenerateStreamRequest): void {
  for (const { field, what, isUsed } of UNIMPLEMENTED_FIELDS) {
    const of = what === undefined ? '' : ` (${what})`;
    if (isUsed(request)) throw new RocmForgeError('NOT_IMPLEMENTED', `${field}${of} is not built yet`, { field });
  }
}
