import { RocmForgeError } from '../../shared/errors.js';
import type { GenerateStreamRequest } from '../../shared/generated/rocmforge/v1/inference.js';

/** A field of the public API that is not built yet, and when a request uses it. */
interface UnimplementedField {
  readonly field: string;
  readonly isUsed: (request: GenerateStreamRequest) => boolean;
}

/**
 * Every field that is refused because it is not built yet. A field that would be ignored silently is a wrong answer;
 * `docs/api.md` lists these, and the list shrinks.
 */
export const UNIMPLEMENTED_FIELDS: readonly UnimplementedField[] = [];

/** @throws RocmForgeError `NOT_IMPLEMENTED`, naming the field */
export function refuseUnimplemented(request: GenerateStreamRequest): void {
  for (const { field, isUsed } of UNIMPLEMENTED_FIELDS) {
    if (isUsed(request)) throw new RocmForgeError('NOT_IMPLEMENTED', `${field} is not built yet`, { field });
  }
}
