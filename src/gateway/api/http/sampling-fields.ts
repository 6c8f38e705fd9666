import type {
  GenerateStreamRequest,
  OutputOptions,
  SamplingParameters,
  StopConditions,
} from '../../../shared/generated/rocmforge/v1/inference.js';
import { GenerateStreamRequest as Message } from '../../../shared/generated/rocmforge/v1/inference.js';
import { MOST_COMPLETIONS } from '../../request/limits.js';
import { constraintOf } from './constraint-fields.js';
import type { Fields } from './fields.js';

const MOST_INTEGER = 2 ** 31 - 1;

/** Names of sampling parameters, and those of other servers that are the same. */
const SAMPLING_NAMES: readonly (readonly [field: string, name: string, other?: string])[] = [
  ['temperature', 'temperature'],
  ['top_k', 'top_k'],
  ['top_p', 'top_p'],
  ['min_p', 'min_p'],
  ['typical_p', 'typical_p', 'typ_p'],
  ['repetition_penalty', 'repetition_penalty', 'repeat_penalty'],
  ['frequency_penalty', 'frequency_penalty'],
  ['presence_penalty', 'presence_penalty'],
  ['logit_bias', 'logit_bias'],
  ['text_bias', 'logit_bias'],
];

/** The fields that OpenAI's requests share, and those that vLLM and llama.cpp added: how tokens are chosen. */
export function samplingOf(fields: Fields): SamplingParameters {
  for (const [field, name, other = name] of SAMPLING_NAMES) fields.standsFor(`sampling.${field}`, name, other);
  const topP = fields.number('top_p');
  const topK = fields.integer('top_k', -1, MOST_INTEGER) ?? 0;
  // A share of 0 is the likeliest token's, as llama.cpp has it.
  const isLikeliest = topP === 0;
  const penalties = ['repetition_penalty', 'repeat_penalty'].map((name) => fields.number(name));
  const typicalP = ['typical_p', 'typ_p'].map((name) => fields.number(name)).find((share) => share !== undefined);
  llamaSamplersOff(fields);
  beamSearchOff(fields);
  return {
    temperature: fields.number('temperature'),
    topK: isLikeliest ? 1 : topK,
    topP: isLikeliest ? undefined : topP,
    minP: fields.number('min_p') ?? 0,
    typicalP,
    repetitionPenalty: penalties.find((penalty) => penalty !== undefined),
    frequencyPenalty: fields.number('frequency_penalty') ?? 0,
    presencePenalty: fields.number('presence_penalty') ?? 0,
    ...biasesOf(fields),
    seed: seedOf(fields),
  };
}

/** Samplers of llama.cpp and others that these values switch off; nothing else of them is built. */
const OFF: Readonly<Record<string, readonly number[]>> = {
  dynatemp_range: [0],
  dynatemp_exponent: [1],
  dry_multiplier: [0],
  xtc_probability: [0],
  mirostat: [0],
  top_n_sigma: [-1, 0],
  top_a: [0],
  tfs: [1],
  tfs_z: [1],
  min_keep: [0, 1],
};
/** Fields that belong to them, and mean nothing while they are off. */
const OF_THOSE = [
  ...['dry_base', 'dry_allowed_length', 'dry_penalty_last_n', 'dry_sequence_breakers'],
  ...['xtc_threshold', 'mirostat_tau', 'mirostat_eta'],
];

function llamaSamplersOff(fields: Fields): void {
  for (const [name, off] of Object.entries(OFF)) fields.mustBe(name, ...off);
  fields.ignore(...OF_THOSE);
  // The penalties look at the whole context, which is -1; which window they have means nothing while they are neutral.
  const has = (neutral: number, ...names: string[]) =>
    names.some((name) => (fields.number(name) ?? neutral) !== neutral);
  const penalizes = has(1, 'repetition_penalty', 'repeat_penalty') || has(0, 'frequency_penalty', 'presence_penalty');
  if (penalizes) fields.mustBe('repeat_last_n', -1);
  fields.ignore('repeat_last_n');
  fields.mustBeEmpty('lora', 'lora_request', 'lora_adapter', 'adapter_id');
}

/** vLLM's search over several texts, and what belongs to it. */
function beamSearchOff(fields: Fields): void {
  fields.mustBe('use_beam_search', false);
  fields.ignore('length_penalty');
  fields.mustBeEmpty('logits_processors');
}

/** Number of completions to choose the best of: all are returned, so it must equal `n`. @param n if it is given */
export function bestOf(fields: Fields, n: number | undefined): void {
  const best = fields.integer('best_of', 1, MOST_COMPLETIONS);
  if (best !== undefined && best !== (n ?? 1)) fields.refuse('best_of', 'must equal n');
}

/** A seed of 64 bits, with or without a sign; a negative one is its two's complement. */
export function seedOf(fields: Fields): bigint | undefined {
  const seed = fields.bigint('seed', -(2n ** 63n), 2n ** 64n - 1n);
  // As in vLLM and llama.cpp, -1 draws one.
  return seed === undefined || seed === -1n ? undefined : BigInt.asUintN(64, seed);
}

/** The least that a float holds: what has it is never chosen. */
const NEVER = -3.4e38;

/**
 * A map from token ids to what is added, as JSON writes it: the ids are strings. Or as llama.cpp has it: other strings are texts,
 * whose tokens it is added to, and it may be pairs, of which `false` is never; what is named twice is added twice.
 */
function biasesOf(fields: Fields): Pick<SamplingParameters, 'logitBias' | 'textBias'> {
  const logitBias: { [id: number]: number } = {};
  const textBias: { [text: string]: number } = Object.create(null);
  const given = fields.rounded('logit_bias');
  if (given === undefined) return { logitBias, textBias };
  const refuse = () => fields.refuse('logit_bias', 'is not an object of token ids, or texts, and numbers');
  if (typeof given !== 'object' || given === null) return refuse();
  const pairs: readonly unknown[] = Array.isArray(given) ? given : Object.entries(given);
  for (const pair of pairs) {
    if (!Array.isArray(pair) || pair.length !== 2) return refuse();
    const [name, bias]: unknown[] = pair;
    if (typeof bias !== 'number' && bias !== false) return refuse();
    const isId = typeof name === 'number' && Number.isInteger(name) && name >= 0;
    const add = (before = 0): number => (bias === false ? NEVER : before + bias);
    if (isId || (typeof name === 'string' && /^\d{1,10}$/.test(name))) {
      logitBias[Number(name)] = add(logitBias[Number(name)]);
    } else if (typeof name === 'string') textBias[name] = add(textBias[name]);
    else return refuse();
  }
  return { logitBias, textBias };
}

/** When to end. @param maxTokens what the form calls the most tokens */
export function stopOf(fields: Fields, maxTokens: number | undefined): StopConditions {
  fields.standsFor('stop.strings', 'stop', 'stop_sequences');
  fields.standsFor('stop.token_ids', 'stop_token_ids');
  fields.standsFor('stop.ignore_eos', 'ignore_eos');
  fields.standsFor('stop.min_tokens', 'min_tokens');
  const stop = fields.any('stop');
  const strings = typeof stop === 'string' ? [stop] : stop === undefined ? [] : fields.strings('stop')!;
  return {
    // An empty one would be everywhere; clients send it for none.
    strings: strings.filter((text) => text !== ''),
    tokenIds: [...(fields.ids('stop_token_ids') ?? [])],
    includeStopString: fields.boolean('include_stop_str_in_output') ?? false,
    ignoreEos: fields.boolean('ignore_eos') ?? false,
    maxTokens,
    minTokens: fields.integer('min_tokens', 0, MOST_INTEGER) ?? 0,
  };
}

/** The most tokens: at least 1, or -1 for as many as fit, as one of these names has it, or several that agree. */
export function maxTokensOf(fields: Fields, ...names: readonly string[]): number | undefined {
  const most = anyMaxTokensOf(fields, ...names);
  const name = names.find((one) => fields.has(one)) ?? '';
  return most === 0 ? fields.refuse(name, 'is 0; send at least 1, or -1 for as many as fit') : most;
}

/** The same where 0 computes the prompt and generates nothing. */
export function anyMaxTokensOf(fields: Fields, ...names: readonly string[]): number | undefined {
  const given = names.filter((name) => fields.has(name));
  fields.standsFor('stop.max_tokens', given[0] ?? (names[0] as string));
  const most = names.map((name) => fields.integer(name, -1, MOST_INTEGER)).filter((one) => one !== undefined);
  const [first, second] = given;
  if (first !== undefined && second !== undefined && most[0] !== most[1]) {
    fields.refuse(second, `is ${most[1]}, and ${first} is ${most[0]}; send one of them`);
  }
  return most[0] === -1 ? undefined : most[0];
}

/** Samplers that llama.cpp's list leaves out are off. Their order is this server's own, which is reported. */
function namedSamplers(fields: Fields, sampling: SamplingParameters): SamplingParameters {
  const given = fields.rounded('samplers');
  fields.reportIgnored('samplers');
  if (!Array.isArray(given)) return sampling;
  const has = (...names: string[]): boolean => names.some((name) => given.includes(name));
  return {
    ...sampling,
    ...(!has('temperature') && { temperature: undefined }),
    ...(!has('top_k') && { topK: 0 }),
    ...(!has('top_p') && { topP: undefined }),
    ...(!has('min_p') && { minP: 0 }),
    ...(!has('typ_p', 'typical_p') && { typicalP: undefined }),
    ...(!has('penalties') && { repetitionPenalty: undefined, frequencyPenalty: 0, presencePenalty: 0 }),
  };
}

/** llama.cpp's limit of an answer's time in milliseconds; what is not above 0 is none. */
function timeLimitOf(fields: Fields): number {
  return Math.max(0, fields.integer('t_max_predict_ms', -MOST_INTEGER, MOST_INTEGER) ?? 0);
}

/** The priority as vLLM's HTTP server has it, where lower runs first: over gRPC higher does. */
export function priorityOf(fields: Fields): number {
  return 0 - (fields.integer('priority', -MOST_INTEGER, MOST_INTEGER) ?? 0);
}

/** A message of the public API from its parts. */
export function messageOf(
  fields: Fields,
  parts: {
    readonly input: GenerateStreamRequest['input'];
    readonly sampling: SamplingParameters;
    readonly stop: StopConditions;
    readonly output: Partial<OutputOptions>;
  },
): GenerateStreamRequest {
  const { sampling } = parts;
  fields.standsFor('time_limit_ms', 't_max_predict_ms');
  const message = Message.fromPartial({
    n: fields.integer('n', 1, MOST_COMPLETIONS),
    priority: priorityOf(fields),
    requestId: fields.string('request_id') ?? '',
    model: fields.string('model') ?? '',
    timeLimitMs: timeLimitOf(fields),
    output: { includeSpecialTokens: fields.boolean('skip_special_tokens') === false, ...parts.output },
  });
  // -1 is how vLLM says all.
  message.sampling = namedSamplers(fields, { ...sampling, topK: Math.max(sampling.topK, 0) });
  message.stop = parts.stop;
  message.constraint = constraintOf(fields);
  message.input = parts.input;
  return message;
}
