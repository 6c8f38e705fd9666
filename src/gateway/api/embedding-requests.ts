import { asRocmForgeError, RocmForgeError } from '../../shared/errors.js';
import { EmbedRequest } from '../../shared/generated/rocmforge/v1/inference.js';
import { EmbedRequest as EngineEmbedRequest } from '../../shared/generated/vllm/grpc/engine/vllm_engine.js';
import { decodeKnown } from '../../shared/grpc/known-fields.js';
import { decodeStrictly } from '../../shared/grpc/strict.js';
import { type EmbeddingRequest, type OpenedPrompts, openEmbedding, openRanking } from '../request/embedding.js';
import type { PromptEncoder } from '../request/encoding/prompt.js';
import type { LimitFacts } from '../request/limits.js';
import { EMBEDDING_READERS, type EmbeddingForm, type EmbeddingKind } from './http/embeddings/embedding-fields.js';
import { renamed } from './http/field-names.js';
import { FieldPolicy } from './http/field-policy.js';
import { parseJson } from './http/json-forms.js';
import type { FormDefaults } from './http/request.js';
import { refuseUnknown } from './protocols/protocol.js';

/** A JSON request for embeddings or scores whose inputs are encoded. */
export interface OpenedJson extends OpenedPrompts {
  readonly form: EmbeddingForm;
  /** See {@link FieldPolicy.ignored}. */
  readonly ignored: readonly string[];
}

/** A call of the public API as a request. @param mostBytes of all embeddings */
export const embeddingRequestOf = (message: EmbedRequest, mostBytes: number): EmbeddingRequest => ({
  ...message,
  mostBytes,
});

/** A call of `vllm.grpc.engine.VllmEngine` as a request. */
export function engineRequestOf({ requestId, tokenized }: EngineEmbedRequest, mostBytes: number): EmbeddingRequest {
  const ids = tokenized?.inputIds ?? [];
  return {
    ...{ model: '', requestId, priority: 0, truncate: false, mostBytes },
    inputs: [{ input: { $case: 'tokens', value: { ids } } }],
  };
}

/** Dependencies of the readers. */
export interface EmbeddingTools {
  readonly facts: LimitFacts;
  readonly encoder: PromptEncoder;
}

/**
 * Reads, checks and encodes a request for embeddings or scores. Depends on nothing else, so that large ones are read in another
 * thread.
 *
 * @param form `message`, `engine` of a call of VllmEngine, or the form of a JSON request
 * @param defaults of a message the most bytes of all embeddings, else those of JSON requests
 * @throws RocmForgeError `MALFORMED_MESSAGE`; as {@link openEmbedding}
 */
export function openPrompts(
  form: string,
  bytes: Uint8Array,
  defaults: object,
  { facts, encoder }: EmbeddingTools,
): OpenedPrompts | OpenedJson {
  if (form === 'message') {
    const message = decodeStrictly(bytes, (given) => decodeKnown(given, (reader) => EmbedRequest.decode(reader)));
    const { mostBytes } = defaults as { readonly mostBytes: number };
    return openEmbedding(embeddingRequestOf(message, mostBytes), facts, encoder);
  }
  if (form === 'engine') {
    const message = decodeStrictly(bytes, (given) => EngineEmbedRequest.decode(given));
    refuseUnknown(message);
    const { mostBytes } = defaults as { readonly mostBytes: number };
    return openEmbedding(engineRequestOf(message, mostBytes), facts, encoder);
  }
  const { strictFields = false } = defaults as FormDefaults;
  const policy = new FieldPolicy(strictFields);
  const read = EMBEDDING_READERS[form as EmbeddingKind];
  if (read === undefined) throw new RocmForgeError('INTERNAL', `no reader of ${form}`);
  const { request, ranking, form: embedding, nameOf } = read(parseJson(bytes), policy, facts);
  try {
    const opened =
      ranking === undefined ? openEmbedding(request, facts, encoder) : openRanking(ranking, facts, encoder);
    return { ...opened, form: embedding, ignored: policy.ignored };
  } catch (error) {
    throw renamed(asRocmForgeError(error), nameOf);
  }
}
