import { randomFillSync } from 'node:crypto';
import { StopStrings } from '../../lib/tokenizer/stop-matcher.js';
import type { Tokenizer } from '../../lib/tokenizer/tokenizer.js';
import { RocmForgeError, typedError } from '../../shared/errors.js';
import {
  type ChatInput,
  type GenerateStreamRequest,
  type OutputOptions,
  type SamplingParameters,
  ToolChoiceMode,
} from '../../shared/generated/rocmforge/v1/inference.js';
import { MAX_F32, SAMPLING_PARAMETERS, samplingOf } from '../../shared/sampling-schema.js';
import { offeredTools } from '../chat/template-input.js';
import { answerOptions, requiresCall } from './answer.js';
import type { GenerationParameters } from './generation.js';
import {
  checkLimits,
  checkModelName,
  type LimitFacts,
  MAX_ANSWER_TEXT_BYTES,
  MAX_LOGPROBS_OF_MESSAGE,
} from './limits.js';
import { callsBesideConstraint, forcesToolCalls } from './required-tool-calls.js';

/** Below this, all but the likeliest token have no weight that a float could hold: the draw is that token. */
const LEAST_TEMPERATURE = 1e-6;
/** Names of functions that no format takes for its markup. */
const CALLABLE_NAME = /^[\p{L}\p{N}._\-/:]+$/u;
/** Tokens whose logits may be changed: the executor keeps room for them. */
const MAX_BIASES = 256;
/** Tokens that min_tokens may have to hold down. */
const MAX_ENDING_TOKENS = 64;

/**
 * Checks all of a request that can be checked before its prompt is encoded.
 *
 * @throws RocmForgeError `INVALID_FIELD`, `MODEL_NOT_FOUND`, `PROMPT_TOO_LONG` or `NOT_IMPLEMENTED`, naming the field
 */
export function checkGeneration(request: GenerateStreamRequest, facts: LimitFacts): void {
  checkLimits(request, facts);
  checkModelName(request.model, facts);
  checkGenerates(facts);
  const { input, sampling, stop } = request;
  checkFloat(sampling?.temperature, 'sampling.temperature', { least: 0 });
  checkFloat(sampling?.topP, 'sampling.top_p', { above: 0, most: 1 });
  checkFloat(sampling?.minP, 'sampling.min_p', { least: 0, most: 1 });
  checkFloat(sampling?.typicalP, 'sampling.typical_p', { above: 0, most: 1 });
  const { least } = SAMPLING_PARAMETERS.repetitionPenalty;
  checkFloat(sampling?.repetitionPenalty, 'sampling.repetition_penalty', { least });
  checkFloat(sampling?.frequencyPenalty, 'sampling.frequency_penalty', { least: -2, most: 2 });
  checkFloat(sampling?.presencePenalty, 'sampling.presence_penalty', { least: -2, most: 2 });
  for (const [id, bias] of Object.entries(sampling?.logitBias ?? {})) {
    check(Number(id) < facts.vocabularySize, 'sampling.logit_bias', `has token id ${id} of ${facts.vocabularySize}`);
    check(isFloat(bias), 'sampling.logit_bias', `of token ${id} is ${bias}; a float must hold it`);
  }
  for (const [text, bias] of Object.entries(sampling?.textBias ?? {})) {
    check(text !== '', 'sampling.text_bias', 'has an empty text');
    check(isFloat(bias), 'sampling.text_bias', `of a text is ${bias}; a float must hold it`);
  }
  for (const id of stop?.tokenIds ?? []) {
    check(id < facts.vocabularySize, 'stop.token_ids', `has token id ${id} of ${facts.vocabularySize}`);
  }
  check(request.n !== 0, 'n', 'must be at least 1');
  check(
    request.constraint?.kind === undefined || !stop?.ignoreEos,
    'stop.ignore_eos',
    'cannot be combined with a constraint, which determines where the text ends',
  );
  if (input?.$case === 'chat') checkTools(input.value, facts);
  if (input?.$case === 'chat') checkBegun(input.value);
  if (input?.$case === 'chat' && (forcesToolCalls(input.value) || callsBesideConstraint(request))) {
    checkForcedToolCalls(request, input.value);
  }
  // A text this long is certain to be too long without encoding it, unless special tokens in it swallow white space.
  const mostCharacters = facts.contextLength * facts.longestTokenBytes;
  if (input?.$case === 'text' && !input.value.parseSpecial && input.value.text.length > mostCharacters) {
    throw new RocmForgeError(
      'PROMPT_TOO_LONG',
      `the prompt has ${input.value.text.length} characters, the context of ${facts.contextLength} tokens holds ${mostCharacters} at most`,
      { field: 'text' },
    );
  }
}

/** @throws RocmForgeError `NOT_IMPLEMENTED` for an encoder */
export function checkGenerates({ embeddings }: LimitFacts): void {
  if (!embeddings?.isEncoder) return;
  const message = 'the model is an encoder, which generates no text; send its inputs to /v1/embeddings or Embed';
  throw new RocmForgeError('NOT_IMPLEMENTED', message, { field: 'model' });
}

/** Sources of a request's parameters in addition to itself. */
export interface GenerationContext {
  readonly facts: LimitFacts;
  readonly tokenizer: Tokenizer;
  readonly promptIds: Uint32Array;
  /** Which field the prompt came in. */
  readonly inputField: string;
  /** The prompt's text, where it was asked for. */
  readonly promptText: string | undefined;
  /** True if the whole answer is one message. */
  readonly isUnary: boolean;
}

/**
 * A request that was checked, as the engine takes it: what depends on the prompt is checked, a seed drawn where none was
 * given.
 *
 * @throws RocmForgeError `INVALID_FIELD` or `PROMPT_TOO_LONG`, naming the field
 */
export function generationParameters(request: GenerateStreamRequest, context: GenerationContext): GenerationParameters {
  const { sampling, stop, output } = request;
  const { facts, tokenizer, promptIds, promptText } = context;
  const room = facts.contextLength - promptIds.length;
  const isPromptOnly = stop?.maxTokens === 0;
  if (room < (isPromptOnly ? 0 : 1)) {
    const generated = isPromptOnly ? '' : ' with at least one generated';
    throw new RocmForgeError(
      'PROMPT_TOO_LONG',
      `the prompt has ${promptIds.length} tokens, which exceeds the available context size of ${facts.contextLength}${generated}; shorten it`,
      {
        field: context.inputField,
        prompt_tokens: String(promptIds.length),
        context_length: String(facts.contextLength),
      },
    );
  }
  const values = samplingOf(sampling);
  const n = request.n ?? 1;
  const echoed = n * Buffer.byteLength(promptText ?? '');
  const limit = MAX_ANSWER_TEXT_BYTES;
  check(
    echoed <= limit,
    'output.echo',
    `asks for ${echoed} bytes of prompt, n times it, more than the ${limit} at most`,
  );
  const maxTokens = Math.min(stop?.maxTokens ?? room, room);
  const minTokens = stop?.minTokens ?? 0;
  check(minTokens <= maxTokens, 'stop.min_tokens', `is ${minTokens}, more than the ${maxTokens} that may be generated`);
  const endingIds = stop?.ignoreEos ? [] : [...tokenizer.eogIds];
  const suppressedIds = minTokens === 0 ? [] : [...new Set([...endingIds, ...(stop?.tokenIds ?? [])])];
  check(
    suppressedIds.length <= MAX_ENDING_TOKENS,
    'stop.token_ids',
    `are more than the ${MAX_ENDING_TOKENS} that min_tokens can suppress`,
  );
  checkLogprobs(promptIds.length, output?.promptLogprobs, 'output.prompt_logprobs');
  const given = logprobTokenIds(output, facts);
  const logprobs = given.length > 0 ? 0 : output?.logprobs;
  if (context.isUnary) {
    const isGiven = given.length > 0;
    checkLogprobs(
      n * maxTokens,
      isGiven ? given.length : logprobs,
      isGiven ? 'output.logprob_tokens.ids' : 'output.logprobs',
    );
  }
  const chat = request.input?.$case === 'chat' ? request.input.value : undefined;
  return {
    promptIds,
    answer: chat && answerOptions(chat, facts, { tokenizer, ids: promptIds }),
    sampling: {
      ...values,
      temperature: values.temperature < LEAST_TEMPERATURE ? 0 : values.temperature,
      // More than there are is all there are.
      topK: Math.min(values.topK, facts.vocabularySize),
      seed: sampling?.seed ?? facts.defaultSeed ?? randomSeed(),
      logprobs: logprobsOf(logprobs),
      chosenLogprobs: given.length,
      promptLogprobs: logprobsOf(output?.promptLogprobs),
      minTokens,
      logitBias: biasesOf(sampling, given, tokenizer),
      suppressedIds,
    },
    stop: {
      strings: new StopStrings(stop?.strings ?? []),
      tokenIds: new Set(stop?.tokenIds ?? []),
      includeStopString: stop?.includeStopString ?? false,
      ignoreEos: stop?.ignoreEos ?? false,
      maxTokens,
      minTokens,
      includeSpecialTokens: output?.includeSpecialTokens ?? false,
    },
    // Completions of an argmax are all the same, but they were asked for.
    n,
    priority: request.priority,
    timeLimitMs: request.timeLimitMs,
    promptText,
    isPromptOnly,
  };
}

/** Tokens whose log probabilities come with each: every one of the vocabulary's, once, and no likeliest beside them. */
function logprobTokenIds(output: OutputOptions | undefined, { vocabularySize }: LimitFacts): readonly number[] {
  const ids = output?.logprobTokens?.ids ?? [];
  const field = 'output.logprob_tokens.ids';
  const foreign = ids.find((id) => id >= vocabularySize);
  check(foreign === undefined, field, `has token id ${foreign} of ${vocabularySize}`);
  check(new Set(ids).size === ids.length, field, 'names a token twice');
  check(ids.length === 0 || (output?.logprobs ?? 0) === 0, field, 'cannot be combined with likeliest alternatives');
  return ids;
}

/**
 * Logit biases by token id: those of ids and of the tokens of texts, added up where both name one. The given tokens
 * come first, biased or not, as `chosenLogprobs` counts them.
 */
function biasesOf(
  sampling: SamplingParameters | undefined,
  given: readonly number[],
  tokenizer: Tokenizer,
): (readonly [number, number])[] {
  const biases = new Map(given.map((id) => [id, 0]));
  for (const [id, bias] of Object.entries(sampling?.logitBias ?? {})) biases.set(Number(id), bias);
  for (const [text, bias] of Object.entries(sampling?.textBias ?? {})) {
    for (const id of tokenizer.encodePrompt(text, { parseSpecial: false, addSpecial: false })) {
      const added = (biases.get(id) ?? 0) + bias;
      biases.set(id, Math.min(Math.max(added, -MAX_F32), MAX_F32));
    }
  }
  const many = `are ${biases.size} tokens with those of logit_bias, more than the ${MAX_BIASES} allowed`;
  check(biases.size <= MAX_BIASES, given.length > 0 ? 'output.logprob_tokens.ids' : 'sampling.text_bias', many);
  return [...biases];
}

/** Refuses tools that the model would not hear of or whose calls could not be read, and a choice among none. */
function checkTools(chat: ChatInput, { toolsRefusal }: LimitFacts): void {
  const choice = chat.toolChoice?.choice;
  check(chat.toolChoice === undefined || choice !== undefined, 'chat.tool_choice', 'is empty; leave it out for auto');
  if (choice?.$case === 'mode') {
    const isKnown = choice.value >= ToolChoiceMode.UNSPECIFIED && choice.value <= ToolChoiceMode.REQUIRED;
    check(isKnown, 'chat.tool_choice.mode', `is ${choice.value}; it must be a mode`);
    const needsTools = choice.value === ToolChoiceMode.REQUIRED;
    check(!needsTools || chat.tools.length > 0, 'chat.tool_choice', 'requires a call, but there are no tools');
  } else if (choice !== undefined) {
    const isOffered = chat.tools.some(({ name }) => name === choice.value);
    check(isOffered, 'chat.tool_choice', `requires a call of "${choice.value}", which is not one of the tools`);
  }
  if (offeredTools(chat).length > 0) check(toolsRefusal === undefined, 'chat.tools', toolsRefusal ?? '');
}

/**
 * The text that the model continues is a turn of its own, and all of it is content.
 *
 * @throws RocmForgeError `INVALID_FIELD`
 */
export function checkBegun(chat: ChatInput): void {
  const { messages, addGenerationPrompt, continueFinalMessage } = chat;
  if (!continueFinalMessage) return;
  const field = 'chat.continue_final_message';
  const last = messages.at(-1);
  const isBegun = last?.role === 'assistant' && last.toolCalls.length === 0 && last.reasoning === '';
  check(isBegun, field, "requires that the last message is the assistant's and has only content");
  check(messages.at(-2)?.role !== 'assistant', field, 'cannot be combined with two assistant messages at the end');
  check(
    addGenerationPrompt !== true,
    field,
    'cannot be combined with chat.add_generation_prompt, which starts another message',
  );
  check(!forcesToolCalls(chat), field, 'cannot be combined with a forced call or strict tools');
}

/**
 * The request with every tool strict that is to be so if possible; undefined without such a tool, or where the rest of the request
 * does not allow it. Whether a schema does is known once its grammar is made.
 */
export function withStrictTools(request: GenerateStreamRequest): GenerateStreamRequest | undefined {
  const { input } = request;
  if (input?.$case !== 'chat' || !input.value.tools.some((tool) => tool.strictIfSupported && !tool.strict))
    return undefined;
  const tools = input.value.tools.map((tool) => ({ ...tool, strict: tool.strict || tool.strictIfSupported }));
  const chat = { ...input.value, tools };
  const strict = { ...request, input: { $case: 'chat' as const, value: chat } };
  try {
    checkBegun(chat);
    checkForcedToolCalls(strict, chat);
    return strict;
  } catch (error) {
    if (typedError(error) !== undefined) return undefined;
    throw error;
  }
}

/** Calls that must come, that are strict, or that may come instead of a constrained answer follow a grammar that has the functions' names as they are. */
function checkForcedToolCalls({ stop }: GenerateStreamRequest, chat: ChatInput): void {
  const isStrict = chat.tools.some(({ strict }) => strict);
  const what = requiresCall(chat)
    ? 'a chat.tool_choice that requires a call'
    : isStrict
      ? 'chat.tools.strict'
      : 'a constraint';
  check(!stop?.ignoreEos, 'stop.ignore_eos', `cannot be combined with ${what}`);
  const at = chat.tools.findIndex(({ name }) => !CALLABLE_NAME.test(name));
  const rule = `with ${what} a name may contain only letters, digits and . _ - / :`;
  check(at < 0, `chat.tools[${at}].name`, `is ${JSON.stringify(chat.tools[at]?.name)}; ${rule}`);
}

/** Bits of a drawn seed: clients that read it as a double send back the same one. */
const DRAWN_BITS = 52;

/** Random seeds, drawn many at a time: a call of the generator costs as much for one. */
const seeds = new BigUint64Array(512);
let seedsLeft = 0;
function randomSeed(): bigint {
  if (seedsLeft === 0) {
    randomFillSync(seeds);
    seedsLeft = seeds.length;
  }
  seedsLeft -= 1;
  return BigInt.asUintN(DRAWN_BITS, seeds[seedsLeft] as bigint);
}

/** Log probabilities that are returned with a token. With n likeliest, even 0 of them, its own is among them. */
function logprobsOf(likeliest: number | undefined): number {
  return likeliest === undefined ? 0 : 1 + likeliest;
}

/** Refuses more log probabilities than one message may have. */
function checkLogprobs(tokens: number, top: number | undefined, field: string): void {
  const count = top === undefined ? 0 : tokens * (top + 1);
  check(
    count <= MAX_LOGPROBS_OF_MESSAGE,
    field,
    `asks for ${count} log probabilities in one message, more than the ${MAX_LOGPROBS_OF_MESSAGE} allowed`,
  );
}

function check(holds: boolean, field: string, what: string): void {
  if (!holds) throw new RocmForgeError('INVALID_FIELD', `${field} ${what}`, { field });
}

/** Refuses a number outside of its range. @param range `most` is by default what a float holds: the executor is sent floats */
function checkFloat(value: number | undefined, field: string, range: FloatRange): void {
  const { most = MAX_F32 } = range;
  const isAbove = value === undefined || ('above' in range ? value > range.above : value >= range.least);
  const written = `${'above' in range ? `(${range.above}` : `[${range.least}`}, ${most}]`;
  check(isAbove && !((value ?? most) > most), field, `is ${value}; it must be in ${written}`);
}

type FloatRange = { readonly most?: number } & ({ readonly least: number } | { readonly above: number });

function isFloat(value: number): boolean {
  return Math.abs(value) <= MAX_F32;
}
