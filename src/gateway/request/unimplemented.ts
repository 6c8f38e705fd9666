import { RocmForgeError } from '../../shared/errors.js';
import type { ChatInput, GenerateStreamRequest } from '../../shared/generated/rocmforge/v1/inference.js';
import type { LimitFacts } from './limits.js';
import { canForceToolCalls, forcesToolCalls } from './required-tool-calls.js';

/** A field of the public API that is not built yet, and when a request uses it. */
interface UnimplementedField {
  readonly field: string;
  /** What of the field it is; absent: all. */
  readonly what?: string;
  readonly isUsed: (request: GenerateStreamRequest, facts: LimitFacts) => boolean;
}

const ofChat =
  (isUsed: (chat: ChatInput, facts: LimitFacts) => boolean): UnimplementedField['isUsed'] =>
  ({ input }, facts) =>
    input?.$case === 'chat' && isUsed(input.value, facts);

/**
 * Every field that is refused because it is not built yet. A field that would be ignored silently is a wrong answer;
 * `docs/api.md` lists these, and the list shrinks.
 */
export const UNIMPLEMENTED_FIELDS: readonly UnimplementedField[] = [
  {
    field: 'chat.tools.strict',
    what: 'where no call must come, of a model that writes calls as harmony',
    isUsed: ofChat((chat, facts) => forcesToolCalls(chat) && !canForceToolCalls(chat, facts)),
  },
];

/** @throws RocmForgeError `NOT_IMPLEMENTED`, naming the field */
export function refuseUnimplemented(request: GenerateStreamRequest, facts: LimitFacts): void {
  for (const { field, what, isUsed } of UNIMPLEMENTED_FIELDS) {
    const of = what === undefined ? '' : ` (${what})`;
    if (isUsed(request, facts))
      throw new RocmForgeError('NOT_IMPLEMENTED', `${field}${of} is not supported`, { field });
  }
}
