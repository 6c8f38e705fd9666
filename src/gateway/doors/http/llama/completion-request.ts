import { Fields } from '../fields.js';
import { perPrompt, promptsOf } from '../openai/completion-request.js';
import type { JsonGeneration } from '../request.js';
import { messageOf, samplingOf, stopOf } from '../sampling-fields.js';

/** What llama.cpp's server samples with where a request says nothing (its `common_params_sampling`). */
const DEFAULTS = { temperature: 0.8, topK: 40, topP: 0.95, minP: 0.05 } as const;

/** Its word for a random seed is -1, of 32 bits without a sign. */
const isRandom = (seed: number): boolean => seed < 0 || seed === 2 ** 32 - 1;

/** Samplers that are switched off by these values, and of which nothing else is built. */
const OFF: Readonly<Record<string, number>> = {
  dynatemp_range: 0,
  dynatemp_exponent: 1,
  dry_multiplier: 0,
  xtc_probability: 0,
  mirostat: 0,
  top_n_sigma: -1,
};
/** What belongs to them, and says nothing while they are off. */
const OF_THOSE = [
  'dry_base',
  'dry_allowed_length',
  'dry_penalty_last_n',
  'dry_sequence_breakers',
  'xtc_threshold',
  'mirostat_tau',
  'mirostat_eta',
];

/**
 * Reads a request of llama.cpp's `POST /completion`.
 *
 * @throws RocmForgeError `INVALID_FIELD` or `NOT_IMPLEMENTED`, naming the field
 */
export function llamaCompletionRequest(body: unknown): JsonGeneration {
  const fields = new Fields(body);
  // As there: markers in a prompt are special tokens.
  const inputs = promptsOf(fields, 'prompt', { addSpecial: true, parseSpecial: true });
  const isStream = fields.boolean('stream') ?? false;
  const likeliest = fields.integer('n_probs', 0, 20) ?? 0;
  const logprobs = likeliest === 0 ? undefined : likeliest;
  const given = samplingOf(fields);
  const sampling = {
    ...given,
    temperature: given.temperature ?? DEFAULTS.temperature,
    topK: fields.has('top_k') ? given.topK : DEFAULTS.topK,
    topP: given.topP ?? DEFAULTS.topP,
    minP: fields.has('min_p') ? given.minP : DEFAULTS.minP,
    typicalP: given.typicalP ?? fields.number('typ_p'),
    repetitionPenalty: given.repetitionPenalty ?? fields.number('repeat_penalty'),
    seed: fields.has('seed') && isRandom(fields.number('seed') as number) ? undefined : given.seed,
  };
  const most = fields.integer('n_predict', -2, 2 ** 31 - 1);
  const message = messageOf(fields, {
    input: undefined,
    sampling,
    stop: stopOf(fields, most === undefined || most < 0 ? undefined : most),
    output: { logprobs },
  });
  fields.only('post_sampling_probs', false);
  fields.only('n_keep', 0);
  fields.only('n_cmpl', 1);
  for (const [name, off] of Object.entries(OFF)) fields.only(name, off);
  for (const name of OF_THOSE) fields.any(name);
  fields.only('return_progress', false);
  // Where and how something is computed, which changes nothing that is answered.
  fields.passOver('cache_prompt', 'id_slot', 'timings_per_token', 'n_discard', 'n_indent', 'user');
  fields.notBuilt('grammar', 'json_schema', 'samplers', 'lora', 't_max_predict_ms', 'repeat_last_n', 'min_keep');
  const responseFields = fields.strings('response_fields');
  const includeTokens = fields.boolean('return_tokens') ?? false;
  const messages = perPrompt(message, inputs, { fields, isStream });
  fields.end();
  const form = { kind: 'llama', isStream, includeUsage: false, includeTokens, logprobs, echo: false } as const;
  return { messages, form: { ...form, ...(responseFields && { responseFields }) } };
}
