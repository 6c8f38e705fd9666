import type { GenerateStreamRequest } from '../../../../shared/generated/rocmforge/v1/inference.js';
import { areIds, Fields } from '../fields.js';
import type { JsonGeneration } from '../request.js';
import { maxTokensOf, messageOf, samplingOf, stopOf } from '../sampling-fields.js';
import { streamOf } from './stream-fields.js';

/** What OpenAI's completions generate where nobody says how much. */
const DEFAULT_MAX_TOKENS = 16;

/**
 * Reads a request of OpenAI's `POST /v1/completions`, with the fields that vLLM and llama.cpp added.
 *
 * @throws RocmForgeError `INVALID_FIELD` or `NOT_IMPLEMENTED`, naming the field
 */
export function completionRequest(body: unknown): JsonGeneration {
  const fields = new Fields(body);
  const logprobs = fields.integer('logprobs', 0, 20);
  const echo = fields.boolean('echo') ?? false;
  const message = messageOf(fields, {
    input: promptOf(fields, 'prompt', { addSpecial: fields.boolean('add_special_tokens'), parseSpecial: false }),
    sampling: samplingOf(fields),
    stop: stopOf(fields, maxTokensOf(fields, 'max_tokens') ?? DEFAULT_MAX_TOKENS),
    output: { logprobs, echo, promptLogprobs: echo ? logprobs : undefined },
  });
  const best = fields.integer('best_of', 1, 64);
  if (best !== undefined && best !== (message.n ?? 1)) fields.refuse('best_of', 'is taken with the value of n alone');
  if (fields.string('suffix')) fields.notBuilt('suffix');
  fields.passOver('user');
  const { isStream, includeUsage } = streamOf(fields);
  fields.end();
  return { message, form: { kind: 'completion', isStream, includeUsage, includeTokens: false, logprobs, echo } };
}

/** A text, or ids; or a list of one of them. */
export function promptOf(
  fields: Fields,
  name: string,
  options: { readonly addSpecial: boolean | undefined; readonly parseSpecial: boolean },
): GenerateStreamRequest['input'] {
  const given = fields.any(name);
  const isListed = Array.isArray(given) && given.length === 1 && typeof given[0] !== 'number';
  const prompt: unknown = isListed ? given[0] : given;
  if (prompt === undefined) return fields.refuse(name, 'is missing');
  if (typeof prompt === 'string') return { $case: 'text', value: { text: prompt, ...options } };
  if (areIds(prompt)) return { $case: 'tokens', value: { ids: [...prompt] } };
  if (Array.isArray(prompt) && prompt.length > 1)
    return fields.refuse(name, 'has several prompts: send a request for each');
  return fields.refuse(name, 'is neither a text nor a list of token ids');
}
