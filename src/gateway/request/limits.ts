import { type ErrorReason, RocmForgeError } from '../../shared/errors.js';
import type { DetokenizeRequest, GenerateStreamRequest } from '../../shared/generated/rocmforge/v1/inference.js';
import type { AnswerFormat } from '../chat/answer/answer-format.js';
import type { EmbeddingFacts } from './embedding.js';

/** Properties of a served model that its limits depend on. */
export interface LimitFacts {
  /** Name of the model in requests. */
  readonly modelName: string;
  /** Tokens of prompt and completion together. */
  readonly contextLength: number;
  readonly vocabularySize: number;
  /** Bytes of the longest token: no text of more than context × these fits. Infinite: a token may stand for any text. */
  readonly longestTokenBytes: number;
  /** The highest priority that a request may have. */
  readonly maxPriority: number;
  /** Other names by which requests may call it. */
  readonly modelAliases?: readonly string[] | undefined;
  /** The seed of requests that give none; absent: one is drawn. */
  readonly defaultSeed?: bigint | undefined;
  /** True if requests may call the model as they like. */
  readonly takesAnyName?: boolean;
  /** The model's format of reasoning and calls; absent: all that it writes is content. */
  readonly answerFormat?: AnswerFormat;
  /** The chat template of conversations with tools. */
  readonly toolTemplate?: string | undefined;
  /** Method of its embeddings. */
  readonly embeddings?: EmbeddingFacts | undefined;
  /** Why conversations with tools are refused; absent: they are taken. */
  readonly toolsRefusal?: string | undefined;
}

/** Any request of the public API; each has some of these fields. */
export type LimitedRequest = Partial<GenerateStreamRequest> & Partial<DetokenizeRequest>;

/** The most that one field of a request may hold. */
export interface FieldLimit {
  /** As the proto names it, from the request on. */
  readonly field: string;
  readonly counts: 'characters' | 'characters in all' | 'entries' | 'entries in all' | 'value';
  /** The limit in words, where it is no fixed number. */
  readonly words?: string;
  most(facts: LimitFacts): number;
  /** The largest of what is counted; cheap, because counts come before what they count. */
  measure(request: LimitedRequest): number;
  readonly reason?: ErrorReason;
}

const KIB = 1024;

/** Completions of one prompt. */
export const MOST_COMPLETIONS = 64;

/** Characters of a model's name that requests may call it. */
export const MOST_MODEL_NAME_CHARACTERS = 256;

const chatOf = ({ input }: LimitedRequest) => (input?.$case === 'chat' ? input.value : undefined);
const messagesOf = (request: LimitedRequest) => chatOf(request)?.messages ?? [];
const toolCallsOf = (request: LimitedRequest) => messagesOf(request).flatMap(({ toolCalls }) => toolCalls);
const toolsOf = (request: LimitedRequest) => chatOf(request)?.tools ?? [];

function largest<T>(items: readonly T[], size: (item: T) => number): number {
  let most = 0;
  for (const item of items) most = Math.max(most, size(item));
  return most;
}

function sum<T>(items: readonly T[], size: (item: T) => number): number {
  let total = 0;
  for (const item of items) total += size(item);
  return total;
}

const limit = (
  field: string,
  counts: FieldLimit['counts'],
  most: number | FieldLimit['most'],
  measure: FieldLimit['measure'],
  more: Pick<FieldLimit, 'words' | 'reason'> = {},
): FieldLimit => ({ field, counts, most: typeof most === 'number' ? () => most : most, measure, ...more });

/** Tokens of the context, in words. */
const CONTEXT = 'the context’s tokens';

/**
 * The most that each field which a client chooses may hold, in the order in which they are looked at: before anything is
 * encoded, built or queued. What has no line of its own (texts, contents, arguments) is bounded by its message's bytes.
 * `docs/api.md` prints this table.
 */
export const FIELD_LIMITS: readonly FieldLimit[] = [
  limit('model', 'characters', MOST_MODEL_NAME_CHARACTERS, ({ model }) => model?.length ?? 0),
  limit('request_id', 'characters', 128, ({ requestId }) => requestId?.length ?? 0),
  limit(
    'tokens.ids',
    'entries',
    ({ contextLength }) => contextLength,
    ({ input }) => (input?.$case === 'tokens' ? input.value.ids.length : 0),
    { words: CONTEXT, reason: 'PROMPT_TOO_LONG' },
  ),
  limit('mixed.parts', 'entries', 4096, ({ input }) => (input?.$case === 'mixed' ? input.value.parts.length : 0)),
  limit(
    'mixed.parts.tokens.ids',
    'entries in all',
    ({ contextLength }) => contextLength,
    ({ input }) =>
      input?.$case === 'mixed'
        ? sum(input.value.parts, ({ part }) => (part?.$case === 'tokens' ? part.value.ids.length : 0))
        : 0,
    { words: CONTEXT, reason: 'PROMPT_TOO_LONG' },
  ),
  limit('chat.messages', 'entries', 4096, (request) => messagesOf(request).length),
  limit('chat.messages.role', 'characters', 64, (request) => largest(messagesOf(request), ({ role }) => role.length)),
  limit('chat.messages.name', 'characters', 256, (request) => largest(messagesOf(request), ({ name }) => name.length)),
  limit('chat.messages.tool_call_id', 'characters', 256, (request) =>
    largest(messagesOf(request), ({ toolCallId }) => toolCallId.length),
  ),
  limit('chat.messages.tool_calls', 'entries', 128, (request) =>
    largest(messagesOf(request), ({ toolCalls }) => toolCalls.length),
  ),
  limit('chat.messages.tool_calls', 'entries in all', 4096, (request) =>
    sum(messagesOf(request), ({ toolCalls }) => toolCalls.length),
  ),
  limit('chat.messages.tool_calls.id', 'characters', 256, (request) =>
    largest(toolCallsOf(request), ({ id }) => id.length),
  ),
  limit('chat.messages.tool_calls.name', 'characters', 256, (request) =>
    largest(toolCallsOf(request), ({ name }) => name.length),
  ),
  limit('chat.tools', 'entries', 256, (request) => toolsOf(request).length),
  limit('chat.tools.name', 'characters', 256, (request) => largest(toolsOf(request), ({ name }) => name.length)),
  limit('chat.tools.description', 'characters', 64 * KIB, (request) =>
    largest(toolsOf(request), ({ description }) => description.length),
  ),
  limit('chat.tools.parameters_json', 'characters', 256 * KIB, (request) =>
    largest(toolsOf(request), ({ parametersJson }) => parametersJson.length),
  ),
  limit(
    'chat.template_variables_json',
    'characters',
    64 * KIB,
    (request) => chatOf(request)?.templateVariablesJson.length ?? 0,
  ),
  limit('chat.tool_choice.function', 'characters', 256, (request) => {
    const choice = chatOf(request)?.toolChoice?.choice;
    return choice?.$case === 'function' ? choice.value.length : 0;
  }),
  // The executor keeps room for this many; what min_tokens holds down has its own.
  limit('sampling.logit_bias', 'entries', 256, ({ sampling }) => Object.keys(sampling?.logitBias ?? {}).length),
  limit('sampling.text_bias', 'entries', 256, ({ sampling }) => Object.keys(sampling?.textBias ?? {}).length),
  limit('sampling.text_bias', 'characters', 256, ({ sampling }) =>
    largest(Object.keys(sampling?.textBias ?? {}), (text) => text.length),
  ),
  limit('stop.strings', 'entries', 64, ({ stop }) => stop?.strings.length ?? 0),
  limit('stop.strings', 'characters', 256, ({ stop }) => largest(stop?.strings ?? [], (text) => text.length)),
  limit('stop.strings', 'characters in all', KIB, ({ stop }) => sum(stop?.strings ?? [], (text) => text.length)),
  limit('stop.token_ids', 'entries', 256, ({ stop }) => stop?.tokenIds.length ?? 0),
  limit('output.logprobs', 'value', 20, ({ output }) => output?.logprobs ?? 0),
  limit('output.prompt_logprobs', 'value', 20, ({ output }) => output?.promptLogprobs ?? 0),
  limit('output.logprob_tokens.ids', 'entries', 20, ({ output }) => output?.logprobTokens?.ids.length ?? 0),
  limit('n', 'value', MOST_COMPLETIONS, ({ n }) => n ?? 0),
  limit(
    'priority',
    'value',
    ({ maxPriority }) => maxPriority,
    ({ priority }) => priority ?? 0,
    { words: '`--max-priority`, 0 by default' },
  ),
  // Longest delay of a timer.
  limit('time_limit_ms', 'value', 2 ** 31 - 1, ({ timeLimitMs }) => timeLimitMs ?? 0),
  limit(
    'token_ids',
    'entries',
    ({ contextLength }) => contextLength,
    ({ tokenIds }) => tokenIds?.length ?? 0,
    { words: CONTEXT },
  ),
];

/**
 * The most log probabilities that come in one message: a message is encoded at once, while all streams wait. Of prompts
 * they come in one; of `Generate`, those of all completions.
 */
export const MAX_LOGPROBS_OF_MESSAGE = 1 << 18;

/**
 * The most bytes of text that all completions of `Generate` have together, and of prompts that are echoed, streamed or not:
 * what most clients take as one message.
 */
export const MAX_ANSWER_TEXT_BYTES = 4 << 20;

/**
 * Refuses a request of which some field holds too much.
 *
 * @throws RocmForgeError `INVALID_FIELD` (`PROMPT_TOO_LONG` for token ids), naming the field and the limit
 */
export function checkLimits(request: LimitedRequest, facts: LimitFacts): void {
  for (const { field, counts, most, measure, reason = 'INVALID_FIELD' } of FIELD_LIMITS) {
    const size = measure(request);
    const atMost = most(facts);
    if (size <= atMost) continue;
    if (field === 'priority') {
      // In which direction it counts differs between the APIs.
      const message = `priority is more urgent than ${atMost}, the --max-priority of this gateway`;
      throw new RocmForgeError(reason, message, { field });
    }
    const what = counts === 'value' ? `is ${size}` : `has ${size} ${counts}`;
    throw new RocmForgeError(reason, `${field} ${what}, more than the ${atMost} allowed`, { field });
  }
}

/** @throws RocmForgeError `MODEL_NOT_FOUND` */
export function checkModelName(name: string, { modelName, modelAliases = [], takesAnyName }: LimitFacts): void {
  if (name === '' || takesAnyName) return;
  const names = [modelName, ...modelAliases];
  if (names.includes(name) || names.includes(withoutLatestTag(name))) return;
  throw new RocmForgeError('MODEL_NOT_FOUND', `there is no model "${name}" here, only "${modelName}"`, {
    field: 'model',
  });
}

/** A model's name without Ollama's tag for the newest version, which its clients add to names without a tag. */
export const withoutLatestTag = (name: string): string => name.replace(/:latest$/, '');

/** For `docs/api.md`: each limit in words. */
export function describeLimits(): readonly {
  readonly field: string;
  readonly counts: string;
  readonly most: string;
}[] {
  const facts = { modelName: '', contextLength: 0, vocabularySize: 0, longestTokenBytes: 0, maxPriority: 0 };
  return FIELD_LIMITS.map(({ field, counts, words, most }) => ({
    field,
    counts,
    most: words ?? most(facts).toLocaleString('en'),
  }));
}
