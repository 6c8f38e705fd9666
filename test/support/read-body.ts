import { EMBEDDING_READERS, type EmbeddingKind } from '../../src/gateway/api/http/embeddings/embedding-fields.js';
import { FieldPolicy } from '../../src/gateway/api/http/field-policy.js';
import { parseJson, readGeneration } from '../../src/gateway/api/http/json-forms.js';
import type { AnswerKind, FormDefaults } from '../../src/gateway/api/http/request.js';
import type { LimitFacts } from '../../src/gateway/request/limits.js';
import { typedError } from '../../src/shared/errors.js';

/** Result of reading a body: what runs, as JSON, and the ignored fields, or the field that it is refused for. */
export interface ReadBody {
  readonly read?: string;
  readonly ignored?: readonly string[];
  readonly field?: string;
}

const FILL_IN = { repository: 4, file: 5, bos: undefined, prefix: 1, suffix: 2, middle: 3 };

/**
 * Reads a body of any API as the server does, without a model.
 *
 * @param body an object, or its JSON
 */
export function readBody(kind: AnswerKind | EmbeddingKind, body: unknown, defaults: FormDefaults): ReadBody {
  const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  try {
    if (Object.hasOwn(EMBEDDING_READERS, kind)) {
      const policy = new FieldPolicy(defaults.strictFields ?? false);
      const read = EMBEDDING_READERS[kind as EmbeddingKind](parseJson(bytes), policy, {} as LimitFacts);
      return { read: textOf(read), ignored: policy.ignored };
    }
    const facts = { ...defaults, fillIn: FILL_IN, hasChatTemplate: true };
    const { ignored, ...read } = readGeneration(kind as AnswerKind, parseJson(bytes), facts);
    return { read: textOf(read), ignored };
  } catch (error) {
    const typed = typedError(error);
    if (typed === undefined) throw error;
    return { field: String(typed.metadata.field ?? typed.message) };
  }
}

/** JSON without what a response of the Responses API repeats of the request. */
const textOf = (read: unknown): string =>
  JSON.stringify(read, (name, value) => {
    if (name === 'echo' && typeof value === 'string') return undefined;
    return typeof value === 'bigint' ? `${value}n` : value;
  });
