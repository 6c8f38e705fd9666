import { randomBytes, randomUUID } from 'node:crypto';
import { RocmForgeError } from '../../shared/errors.js';
import type {
  ChatInput,
  GenerateStreamRequest,
  TextInput,
  TokenInput,
} from '../../shared/generated/rocmforge/v1/inference.js';
import type { GenerationParameters } from '../generation/generation.js';
import type { ServedModel } from '../served-model.js';
import { StopStrings } from '../tokenizer/stop-matcher.js';
import { refuseUnimplemented } from './unimplemented.js';

const MAX_LOGPROBS = 20;
const MAX_COMPLETIONS = 64;
const MAX_STOPS = 64;
/** The executor keeps room for this many; what min_tokens holds down has its own. */
const MAX_LOGIT_BIASES = 256;
/** Tokens that min_tokens may have to hold down. */
const MAX_ENDING_TOKENS = 64;

/**
 * A request as the engine takes it: every field checked, the prompt encoded, a seed drawn where none was given.
 *
 * @throws RocmForgeError `INVALID_FIELD`, `PROMPT_TOO_LONG`, `TOKEN_OUT_OF_RANGE`, `NOT_IMPLEMENTED` or one of the
 *         tokenizer's and the chat template's, always naming the field
 */
export async function validateGeneration(
  request: GenerateStreamRequest,
  model: ServedModel,
  peer: string,
): Promise<GenerationParameters> {
  const { sampling, stop, output } = request;
  check(finite(sampling?.temperature, 0), 'sampling.temperature', 'must be a number of at least 0');
  check(inRange(sampling?.topP, Number.MIN_VALUE, 1), 'sampling.top_p', 'must be in (0, 1]');
  check(inRange(sampling?.minP, 0, 1), 'sampling.min_p', 'must be in [0, 1]');
  check(inRange(sampling?.typicalP, Number.MIN_VALUE, 1), 'sampling.typical_p', 'must be in (0, 1]');
  check(finite(sampling?.repetitionPenalty, Number.MIN_VALUE), 'sampling.repetition_penalty', 'must be above 0');
  check(inRange(sampling?.frequencyPenalty, -2, 2), 'sampling.frequency_penalty', 'must be in [-2, 2]');
  check(inRange(sampling?.presencePenalty, -2, 2), 'sampling.presence_penalty', 'must be in [-2, 2]');
  for (const [id, bias] of Object.entries(sampling?.logitBias ?? {})) {
    check(Number(id) < model.vocabularySize, 'sampling.logit_bias', `has token id ${id} of ${model.vocabularySize}`);
    check(Number.isFinite(bias), 'sampling.logit_bias', `of token ${id} is no finite number`);
  }
  check(
    Object.keys(sampling?.logitBias ?? {}).length <= MAX_LOGIT_BIASES,
    'sampling.logit_bias',
    `has more than ${MAX_LOGIT_BIASES} entries`,
  );
  check(stop?.maxTokens !== 0, 'stop.max_tokens', 'must be at least 1');
  check((stop?.strings.length ?? 0) <= MAX_STOPS, 'stop.strings', `has more than ${MAX_STOPS} entries`);
  for (const id of stop?.tokenIds ?? []) {
    check(id < model.vocabularySize, 'stop.token_ids', `has token id ${id} of ${model.vocabularySize}`);
  }
  check(inRange(output?.logprobs, 0, MAX_LOGPROBS), 'output.logprobs', `must be at most ${MAX_LOGPROBS}`);
  check(inRange(output?.promptLogprobs, 0, MAX_LOGPROBS), 'output.prompt_logprobs', `must be at most ${MAX_LOGPROBS}`);
  check(inRange(request.n, 1, MAX_COMPLETIONS), 'n', `must be from 1 to ${MAX_COMPLETIONS}`);
  refuseUnimplemented(request);

  const promptIds = await encodeInput(request.input, model);
  const room = model.contextLength - promptIds.length;
  if (room < 1) {
    throw new RocmForgeError(
      'PROMPT_TOO_LONG',
      `the prompt has ${promptIds.length} tokens, the context holds ${model.contextLength} with at least one generated`,
      { field: request.input?.$case ?? 'input' },
    );
  }
  const temperature = sampling?.temperature ?? 1;
  const maxTokens = Math.min(stop?.maxTokens ?? room, room);
  const minTokens = stop?.minTokens ?? 0;
  check(minTokens <= maxTokens, 'stop.min_tokens', `is ${minTokens}, more than the ${maxTokens} that may be generated`);
  const endingIds = stop?.ignoreEos ? [] : [...model.tokenizer.eogIds];
  const suppressedIds = minTokens === 0 ? [] : [...new Set([...endingIds, ...(stop?.tokenIds ?? [])])];
  check(
    suppressedIds.length <= MAX_ENDING_TOKENS,
    'stop.token_ids',
    `are more than min_tokens can hold down (${MAX_ENDING_TOKENS})`,
  );
  return {
    requestId: request.requestId || randomUUID(),
    peer,
    promptIds,
    sampling: {
      temperature,
      topK: sampling?.topK ?? 0,
      topP: sampling?.topP ?? 1,
      minP: sampling?.minP ?? 0,
      seed: sampling?.seed ?? randomBytes(8).readBigUInt64LE(),
      logprobs: output?.logprobs !== undefined,
      topLogprobs: output?.logprobs ?? 0,
      repetitionPenalty: sampling?.repetitionPenalty ?? 1,
      frequencyPenalty: sampling?.frequencyPenalty ?? 0,
      presencePenalty: sampling?.presencePenalty ?? 0,
      logitBias: Object.entries(sampling?.logitBias ?? {}).map(([id, bias]) => [Number(id), bias] as const),
      suppressedIds,
      minTokens,
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
    n: request.n ?? 1,
    priority: request.priority,
    timeLimitMs: request.timeLimitMs,
    echo: output?.echo ?? false,
    promptLogprobs: output?.promptLogprobs,
  };
}

/** The prompt's token ids. Errors as {@link validateGeneration}. */
export async function encodeInput(
  input:
    | { $case: 'text'; value: TextInput }
    | { $case: 'tokens'; value: TokenInput }
    | { $case: 'chat'; value: ChatInput }
    | undefined,
  model: ServedModel,
): Promise<Uint32Array> {
  if (input === undefined) {
    throw new RocmForgeError('INVALID_FIELD', 'input is missing: give text, tokens or chat', { field: 'input' });
  }
  const ids = await encodeKind(input, model);
  check(ids.length > 0, input.$case, 'is empty: there is nothing to continue');
  return ids;
}

async function encodeKind(
  input: NonNullable<Parameters<typeof encodeInput>[0]>,
  model: ServedModel,
): Promise<Uint32Array> {
  switch (input.$case) {
    case 'text': {
      const { text, parseSpecial, addSpecial } = input.value;
      check(text !== '', 'text.text', 'is empty: there is nothing to continue');
      const options = { parseSpecial, addSpecial: addSpecial ?? true };
      return Uint32Array.from(await model.encoder.encodePrompt(text, options));
    }
    case 'tokens':
      for (const id of input.value.ids) {
        if (id < model.vocabularySize) continue;
        throw new RocmForgeError('TOKEN_OUT_OF_RANGE', `token id ${id} is not below ${model.vocabularySize}`, {
          field: 'tokens.ids',
        });
      }
      return Uint32Array.from(input.value.ids);
    case 'chat':
      return Uint32Array.from(await model.encoder.encodeChat(input.value));
  }
}

function check(holds: boolean, field: string, what: string): void {
  if (!holds) throw new RocmForgeError('INVALID_FIELD', `${field} ${what}`, { field });
}

/** Absent, or a finite number of at least `least`. */
function finite(value: number | undefined, least: number): boolean {
  return value === undefined || (Number.isFinite(value) && value >= least);
}

/** Absent, or a number from `least` to `most`. */
function inRange(value: number | undefined, least: number, most: number): boolean {
  return value === undefined || (value >= least && value <= most);
}
