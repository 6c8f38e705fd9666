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
export const UNIMPLEMENTED_FIELDS: readonly UnimplementedField[] = [
  { field: 'sampling.typical_p', isUsed: ({ sampling }) => (sampling?.typicalP ?? 1) !== 1 },
  { field: 'sampling.repetition_penalty', isUsed: ({ sampling }) => (sampling?.repetitionPenalty ?? 1) !== 1 },
  { field: 'sampling.frequency_penalty', isUsed: ({ sampling }) => (sampling?.frequencyPenalty ?? 0) !== 0 },
  { field: 'sampling.presence_penalty', isUsed: ({ sampling }) => (sampling?.presencePenalty ?? 0) !== 0 },
  { field: 'sampling.logit_bias', isUsed: ({ sampling }) => Object.keys(sampling?.logitBias ?? {}).length > 0 },
  { field: 'stop.min_tokens', isUsed: ({ stop }) => (stop?.minTokens ?? 0) > 0 },
  { field: 'output.prompt_logprobs', isUsed: ({ output }) => output?.promptLogprobs !== undefined },
  { field: 'output.echo', isUsed: ({ output }) => output?.echo ?? false },
  { field: 'constraint', isUsed: ({ constraint }) => constraint?.kind !== undefined },
];

/** @throws RocmForgeError `NOT_IMPLEMENTED`, naming the field */
export function refuseUnimplemented(request: GenerateStreamRequest): void {
  for (const { field, isUsed } of UNIMPLEMENTED_FIELDS) {
    if (isUsed(request)) throw new RocmForgeError('NOT_IMPLEMENTED', `${field} is not built yet`, { field });
  }
}
