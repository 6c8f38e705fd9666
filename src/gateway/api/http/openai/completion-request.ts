import type { GenerateStreamRequest, PromptPart } from '../../../../shared/generated/rocmforge/v1/inference.js';
import { MAX_LOGPROBS_OF_MESSAGE } from '../../../request/limits.js';
import type { FieldPolicy } from '../field-policy.js';
import { areIds, Fields } from '../fields.js';
import { fillInInput } from '../fill-in.js';
import type { FormDefaults, JsonGeneration } from '../request.js';
import { anyMaxTokensOf, bestOf, messageOf, samplingOf, stopOf } from '../sampling-fields.js';
import { streamOf } from './stream-fields.js';

/** Default number of tokens of OpenAI's completions. */
const DEFAULT_MAX_TOKENS = 16;

/**
 * Reads a request of OpenAI's `POST /v1/completions`, with the fields that vLLM and llama.cpp added.
 *
 * @throws RocmForgeError `INVALID_FIELD` or `NOT_IMPLEMENTED`, naming the field
 */
export function completionRequest(body: unknown, policy: FieldPolicy, defaults: FormDefaults): JsonGeneration {
  const fields = new Fields(body, '', policy);
  const addSpecial = fields.boolean('add_special_tokens');
  const suffix = fields.string('suffix') ?? '';
  const inputs =
    suffix === ''
      ? promptsOf(fields, 'prompt', { addSpecial, parseSpecial: false })
      : [fillInInput({ prefix: prefixOf(fields), suffix, files: [] }, defaults, 'suffix')];
  const logprobs = fields.integer('logprobs', 0, 20);
  const echo = fields.boolean('echo') ?? false;
  const message = messageOf(fields, {
    input: undefined,
    sampling: samplingOf(fields),
    stop: stopOf(fields, limitOf(fields)),
    output: { logprobs, echo, promptLogprobs: echo ? logprobs : undefined },
  });
  fields.standsFor('output.logprobs', 'logprobs');
  fields.standsFor('output.prompt_logprobs', 'logprobs');
  fields.standsFor('output.echo', 'echo');
  bestOf(fields, message.n);
  if (suffix !== '') fields.mustBe('echo', false);
  fields.ignore('user');
  fields.mustBe('return_token_ids', false);
  fields.unsupported('prompt_logprobs', 'allowed_token_ids', 'truncate_prompt_tokens', 'prompt_embeds');
  fields.mustBeEmpty('bad_words');
  const { isStream, includeUsage, continuousUsage } = streamOf(fields);
  const returnProgress = fields.boolean('return_progress') ?? false;
  const returnRecovery = fields.boolean('return_recovery') ?? false;
  const timingsPerToken = fields.boolean('timings_per_token') ?? false;
  fields.ignore('cache_prompt', 'id_slot');
  const messages = perPrompt(message, inputs, fields);
  fields.end();
  const form = {
    kind: 'completion',
    isStream,
    includeUsage,
    includeTokens: false,
    logprobs,
    echo,
    continuousUsage,
  } as const;
  return { messages, form: { ...form, timingsPerToken, returnProgress, returnRecovery } };
}

/** The most tokens: without a limit OpenAI's, with -1 as many as fit. */
function limitOf(fields: Fields): number | undefined {
  const names = ['max_tokens', 'n_predict'] as const;
  const most = anyMaxTokensOf(fields, ...names);
  return names.some((name) => fields.has(name)) ? most : DEFAULT_MAX_TOKENS;
}

/** The text before the gap. */
function prefixOf(fields: Fields): string {
  return fields.string('prompt') ?? fields.refuse('prompt', 'must be a text if there is a suffix');
}

/** The most prompts of a request. */
const MOST_PROMPTS = 64;

type Input = NonNullable<GenerateStreamRequest['input']>;

/**
 * Text that a request continues: a text, or ids; or a list of such, each with an answer of its own. As llama.cpp has them, a
 * text may be an object's `prompt_string`, and a list with single ids in it is one prompt, of ids and texts in turn.
 */
export function promptsOf(
  fields: Fields,
  name: string,
  options: { readonly addSpecial: boolean | undefined; readonly parseSpecial: boolean },
): readonly Input[] {
  const given = fields.rounded(name);
  if (given === undefined) return fields.refuse(name, 'is missing');
  const isOne = !Array.isArray(given) || given.length === 0 || given.some((part) => typeof part === 'number');
  const prompts: readonly unknown[] = isOne ? [given] : given;
  if (prompts.length > MOST_PROMPTS) fields.refuse(name, `has ${prompts.length} prompts, more than ${MOST_PROMPTS}`);
  const refuse = (): never => fields.refuse(name, 'is neither a text nor a list of token ids, nor a list of such');
  return prompts.map((prompt): Input => {
    if (areIds(prompt)) return { $case: 'tokens', value: { ids: [...prompt] } };
    if (Array.isArray(prompt)) return mixedOf(prompt, options, refuse);
    return { $case: 'text', value: { text: textOf(prompt, fields, name) ?? refuse(), ...options } };
  });
}

/** A prompt's text, or that of an object as llama.cpp has it for texts beside media. */
function textOf(prompt: unknown, fields: Fields, name: string): string | undefined {
  if (typeof prompt === 'string') return prompt;
  if (typeof prompt !== 'object' || prompt === null) return undefined;
  const object = new Fields(prompt, name, fields.policy);
  const text = object.string('prompt_string') ?? fields.refuse(name, 'has no prompt_string');
  object.unsupported('multimodal_data');
  object.end();
  return text;
}

/** Ids and texts in turn: ids that follow each other are one part. */
export function mixedOf(
  prompt: readonly unknown[],
  options: { readonly addSpecial: boolean | undefined; readonly parseSpecial: boolean },
  refuse: () => never,
): Extract<Input, { $case: 'mixed' }> {
  const parts: PromptPart[] = [];
  for (const item of prompt) {
    const last = parts.at(-1)?.part;
    if (typeof item === 'string') parts.push({ part: { $case: 'text', value: { text: item, ...options } } });
    else if (!areIds([item])) return refuse();
    else if (last?.$case === 'tokens') last.value.ids.push(item as number);
    else parts.push({ part: { $case: 'tokens', value: { ids: [item as number] } } });
  }
  return { $case: 'mixed', value: { parts } };
}

/** A request's message for each of its prompts. */
export function perPrompt(
  message: GenerateStreamRequest,
  inputs: readonly Input[],
  fields: Fields,
): readonly GenerateStreamRequest[] {
  for (const kind of ['text', 'tokens', 'mixed'] as const) fields.standsFor(kind, 'prompt', 'input_prefix');
  checkLogprobsOfAll(message, inputs.length, fields);
  return inputs.map((input, i) => ({
    ...message,
    input,
    // Ids of requests are one generation's each.
    requestId: message.requestId === '' || inputs.length === 1 ? message.requestId : `${message.requestId}-${i}`,
  }));
}

/** Refuses more log probabilities than one answer may have: of each prompt alone the core sees to that. */
function checkLogprobsOfAll({ n, stop, output }: GenerateStreamRequest, prompts: number, fields: Fields): void {
  if (prompts === 1 || output?.logprobs === undefined) return;
  const count = prompts * (n ?? 1) * (stop?.maxTokens ?? Number.POSITIVE_INFINITY) * (output.logprobs + 1);
  if (count <= MAX_LOGPROBS_OF_MESSAGE) return;
  const asked = Number.isFinite(count)
    ? `asks for ${count} log probabilities of ${prompts} prompts`
    : `asks for log probabilities of ${prompts} prompts without a limit of tokens`;
  const most = `one answer has at most ${MAX_LOGPROBS_OF_MESSAGE}`;
  fields.refuse('prompt', `${asked}; ${most}: lower max_tokens, or send one prompt after the other`);
}
