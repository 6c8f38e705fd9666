import type { DeepPartial, MessageFns } from '../shared/generated/rocmforge/v1/inference.js';
import { RocmForgeClientError } from './error.js';

/**
 * A message from some of its fields; the others have the defaults of the proto.
 *
 * @throws RocmForgeClientError `INVALID_ARGUMENT`, reason `INVALID_FIELD`: a field that the message does not have, which a
 * program without types would otherwise believe to be sent
 */
export function completeMessage<T>(type: MessageFns<T>, partial: DeepPartial<NoInfer<T>>): T {
  // Additions to `partial` in its own type are looked for below, in programs without types too.
  const message = type.fromPartial(partial as never);
  const field = unknownField(partial, message);
  if (field === undefined) return message;
  throw new RocmForgeClientError(
    'INVALID_ARGUMENT',
    `the request has no field "${field}"; see docs/api.md for those it has`,
    {
      reason: 'INVALID_FIELD',
      field,
    },
  );
}

/** The path of something that is in the parts of a message and has not come into it. */
function unknownField(parts: unknown, message: unknown): string | undefined {
  if (typeof parts !== 'object' || parts === null || ArrayBuffer.isView(parts)) return undefined;
  for (const [name, part] of Object.entries(parts)) {
    if (part === undefined || part === null) continue;
    const value = typeof message === 'object' && message !== null ? Reflect.get(message, name) : undefined;
    if (value === undefined) return name;
    const below = unknownField(part, value);
    if (below !== undefined) return `${name}.${below}`;
  }
  return undefined;
}
