import type { GenerateStreamRequest } from '../../../../shared/generated/rocmforge/v1/inference.js';
import type { FieldPolicy } from '../field-policy.js';
import { Fields } from '../fields.js';
import { extraFiles, fillInInput } from '../fill-in.js';
import { perPrompt, promptsOf } from '../openai/completion-request.js';
import type { FormDefaults, JsonGeneration } from '../request.js';
import { messageOf, samplingOf, stopOf } from '../sampling-fields.js';

/** Default sampling parameters of llama.cpp's server (its `common_params_sampling`). */
const DEFAULTS = { temperature: 0.8, topK: 40, topP: 0.95, minP: 0.05 } as const;

/** The same by its names. */
export const DEFAULT_SETTINGS = {
  temperature: DEFAULTS.temperature,
  top_k: DEFAULTS.topK,
  top_p: DEFAULTS.topP,
  min_p: DEFAULTS.minP,
  n_predict: -1,
};

/** llama.cpp draws a seed for -1, which is this as an unsigned integer of 32 bits. */
const RANDOM_SEED = 2 ** 32 - 1;
const isRandom = (seed = 0): boolean => seed < 0 || seed === RANDOM_SEED;

/**
 * Reads a request of llama.cpp's `POST /completion`.
 *
 * @throws RocmForgeError `INVALID_FIELD` or `NOT_IMPLEMENTED`, naming the field
 */
export function llamaCompletionRequest(body: unknown, policy: FieldPolicy): JsonGeneration {
  const fields = new Fields(body, '', policy);
  // As there: markers in a prompt are special tokens.
  return generationOf(fields, promptsOf(fields, 'prompt', { addSpecial: true, parseSpecial: true }));
}

/**
 * Reads a request of llama.cpp's `POST /infill`: `/completion` with `input_prefix`, `input_suffix` and `input_extra`. `prompt`
 * follows the prefix.
 *
 * @throws as {@link llamaCompletionRequest}; `NOT_IMPLEMENTED` for a model without tokens to fill in a middle
 */
export function llamaInfillRequest(body: unknown, policy: FieldPolicy, defaults: FormDefaults): JsonGeneration {
  const fields = new Fields(body, '', policy);
  const missing = ['input_prefix', 'input_suffix'].find((name) => !fields.has(name));
  if (missing !== undefined) fields.refuse(missing, 'is missing');
  const gapped = {
    prefix: `${fields.string('input_prefix')}${fields.string('prompt') ?? ''}`,
    suffix: fields.string('input_suffix') as string,
    files: extraFiles(fields),
  };
  fields.ignore('t_max_prompt_ms');
  return generationOf(fields, [fillInInput(gapped, defaults, 'input_suffix')]);
}

/** The fields that both share. */
function generationOf(fields: Fields, inputs: ReturnType<typeof promptsOf>): JsonGeneration {
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
    seed: isRandom(fields.number('seed')) ? undefined : given.seed,
  };
  const most = fields.integer('n_predict', -2, 2 ** 31 - 1);
  const message = messageOf(fields, {
    input: undefined,
    sampling,
    stop: stopOf(fields, most === undefined || most < 0 ? undefined : most),
    output: { logprobs, promptText: true },
  });
  fields.standsFor('stop.max_tokens', 'n_predict');
  fields.standsFor('output.logprobs', 'n_probs');
  fields.standsFor('output.echo', 'prompt', 'input_prefix');
  fields.mustBe('post_sampling_probs', false);
  // Prompts that do not fit are refused: no context is shifted, which this is about.
  fields.reportUnless('n_keep', 0);
  fields.mustBeEmpty('image_data');
  fields.mustBe('n_cmpl', 1);
  // Fields about the place and the way of computing, which change nothing in the response.
  fields.ignore('cache_prompt', 'id_slot', 'n_discard', 'n_indent', 'user');
  const responseFields = fields.strings('response_fields');
  const includeTokens = fields.boolean('return_tokens') ?? false;
  const returnProgress = fields.boolean('return_progress') ?? false;
  const timingsPerToken = fields.boolean('timings_per_token') ?? false;
  if (isStream && inputs.length > 1) fields.refuse('stream', 'requires a single prompt');
  const messages = perPrompt(message, inputs, fields);
  fields.end();
  const form = { kind: 'llama', isStream, includeUsage: false, includeTokens, logprobs, echo: false } as const;
  const settings = settingsOf(message, { n_predict: most ?? -1, n_probs: likeliest, stream: isStream });
  // None named are all.
  const wanted = responseFields?.length ? { responseFields } : {};
  return { messages, form: { ...form, timingsPerToken, returnProgress, settings, ...wanted } };
}

/** Sampling parameters of a request, by llama.cpp's names. The response reports the seed, if it is drawn. */
function settingsOf(
  { sampling, stop }: GenerateStreamRequest,
  given: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  return {
    ...given,
    temperature: sampling?.temperature,
    top_k: sampling?.topK,
    top_p: sampling?.topP,
    min_p: sampling?.minP,
    typical_p: sampling?.typicalP ?? 1,
    repeat_penalty: sampling?.repetitionPenalty ?? 1,
    presence_penalty: sampling?.presencePenalty,
    frequency_penalty: sampling?.frequencyPenalty,
    logit_bias: Object.entries(sampling?.logitBias ?? {}).map(([token, bias]) => ({ token: Number(token), bias })),
    stop: stop?.strings,
    ignore_eos: stop?.ignoreEos,
  };
}
