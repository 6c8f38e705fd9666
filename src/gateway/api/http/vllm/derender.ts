import { StopStrings } from '../../../../lib/tokenizer/stop-matcher.js';
import { asRocmForgeError, RocmForgeError } from '../../../../shared/errors.js';
import {
  Completion as CompletionMessage,
  type GenerateStreamRequest,
  type TokenLogprobs,
} from '../../../../shared/generated/rocmforge/v1/inference.js';
import { answerOptions, answerParser } from '../../../request/answer.js';
import { Completion, type Finish, type StopOptions } from '../../../request/completion.js';
import { checkTokenIds, encodeInput } from '../../../request/encoding/prompt.js';
import { MAX_ANSWER_TEXT_BYTES } from '../../../request/limits.js';
import { checkGeneration } from '../../../request/validate.js';
import { addParts } from '../../messages.js';
import { inTermsOf, renamed } from '../field-names.js';
import type { FieldPolicy } from '../field-policy.js';
import { Fields } from '../fields.js';
import { chatRequest } from '../openai/chat-request.js';
import { messageOf } from '../openai/chat-turn.js';
import { completionRequest } from '../openai/completion-request.js';
import { CompletionLogprobs, chatLogprobs, type TokenNames } from '../openai/logprobs.js';
import type { JsonGeneration } from '../request.js';
import type { RenderTools } from './render.js';

const MOST_INTEGER = 2 ** 31 - 1;

/** One sequence of tokens that an engine has generated. */
interface GeneratedChoice {
  readonly index: number;
  readonly ids: readonly number[];
  readonly finishReason: string;
  readonly logprobs: readonly TokenLogprobs[] | undefined;
}

/** Tokens and end that an engine has generated for one prompt. */
interface Generated {
  readonly requestId: string;
  readonly created: number | undefined;
  readonly choices: readonly GeneratedChoice[];
}

/**
 * Answers vLLM's `POST /v1/chat/completions/derender`: the tokens that an engine has generated for a rendered chat as OpenAI's
 * response, with its reasoning and calls.
 *
 * @throws RocmForgeError `INVALID_FIELD`, `NOT_IMPLEMENTED` for streams, `TOKEN_OUT_OF_RANGE`
 */
export function derenderedChat(body: unknown, policy: FieldPolicy, tools: RenderTools): unknown {
  const fields = new Fields(body, '', policy);
  refuseStreams(fields);
  const response = fields.object('generate_response') ?? fields.refuse('generate_response', 'is missing');
  const generated = generatedOf(response, tools);
  const count = fields.integer('prompt_tokens', 0, MOST_INTEGER) ?? 0;
  // The template says how an answer begins; its request is rendered again.
  fields.ids('prompt_token_ids');
  const given = fields.any('chat_request');
  const request =
    given === undefined
      ? undefined
      : within('chat_request', policy, () => requestOf(chatRequest(given, policy, { verbose: false }), tools));
  const model = fields.string('model') || request?.model || tools.facts.modelName;
  fields.end();
  const names = namesOf(tools);
  return {
    id: idOf('chatcmpl-', generated.requestId),
    object: 'chat.completion',
    ...headOf(generated, model),
    choices: generated.choices.map((choice) => {
      const { completion, finish } = readChoice(choice, request, tools);
      const logprobs = choice.logprobs === undefined ? null : chatLogprobs(choice.logprobs, names);
      return { index: choice.index, message: messageOf(completion), logprobs, finish_reason: finish };
    }),
    usage: usageOf(count, generated.choices),
  };
}

/**
 * The same of `POST /v1/completions/derender`, of a list of responses, one for each prompt. All of the tokens are text.
 *
 * @throws as {@link derenderedChat}
 */
export function derenderedCompletions(body: unknown, policy: FieldPolicy, tools: RenderTools): unknown {
  const fields = new Fields(body, '', policy);
  refuseStreams(fields);
  const responses = fields.objects('generate_responses') ?? fields.refuse('generate_responses', 'is missing');
  const all = responses.map((response) => generatedOf(response, tools));
  const counts = fields.rounded('prompt_tokens') ?? [];
  const areCounts = Array.isArray(counts) && counts.every((one) => Number.isInteger(one) && one >= 0);
  if (!areCounts || (counts.length > 0 && counts.length !== all.length))
    fields.refuse('prompt_tokens', 'is not a list of as many numbers as there are responses');
  fields.list('prompt_token_ids');
  const given = fields.any('completion_request');
  const request =
    given === undefined
      ? undefined
      : within('completion_request', policy, () =>
          requestOf(completionRequest(given, policy, { verbose: false }), tools),
        );
  const model = fields.string('model') || request?.model || tools.facts.modelName;
  fields.end();
  const names = namesOf(tools);
  const choices = all.flatMap((generated) => generated.choices);
  const total = (counts as readonly number[]).reduce((sum, one) => sum + one, 0);
  return {
    id: idOf('cmpl-', all[0]?.requestId ?? ''),
    object: 'text_completion',
    ...headOf(all[0], model),
    choices: choices.map((choice, index) => {
      const { completion, finish } = readChoice(choice, request, tools);
      const logprobs = choice.logprobs === undefined ? null : new CompletionLogprobs(names).write(choice.logprobs);
      return { index, text: completion.text, logprobs, finish_reason: finish };
    }),
    usage: usageOf(total, choices),
  };
}

function refuseStreams(fields: Fields): void {
  if (fields.boolean('stream')) {
    const what = 'stream is not supported here; send the whole response';
    throw new RocmForgeError('NOT_IMPLEMENTED', what, { field: 'stream' });
  }
}

/** Runs what reads a request in a field of this one. @throws RocmForgeError that names its fields with that one's name before them */
function within<T>(name: string, { fieldNames }: FieldPolicy, read: () => T): T {
  try {
    return read();
  } catch (error) {
    const own = inTermsOf(asRocmForgeError(error), fieldNames);
    const { field } = own.metadata;
    throw renamed(own, (word) => (word === field ? `${name}.${field}` : undefined));
  }
}

/** The request that was rendered. */
function requestOf({ messages }: JsonGeneration, { facts }: RenderTools): GenerateStreamRequest {
  const [message] = messages;
  if (message === undefined) throw new RocmForgeError('INTERNAL', 'a request without a message');
  for (const one of messages) checkGeneration(one, facts);
  return message;
}

/** vLLM's `GenerateResponse`. */
function generatedOf(fields: Fields, tools: RenderTools): Generated {
  fields.mustBe('output_mode', 'tokens');
  const generated = {
    requestId: fields.string('request_id') ?? '',
    created: fields.integer('created', 0, Number.MAX_SAFE_INTEGER),
    choices: (fields.objects('choices') ?? fields.refuse('choices', 'is missing')).map((choice, i) => {
      const ids = choice.ids('token_ids') ?? [];
      checkTokenIds(ids, tools.facts.vocabularySize, choice.nameOf('token_ids'));
      if (ids.length > tools.facts.contextLength) choice.refuse('token_ids', 'has more tokens than the context');
      const read = {
        index: choice.integer('index', 0, MOST_INTEGER) ?? i,
        ids,
        finishReason: choice.string('finish_reason') ?? 'stop',
        logprobs: logprobsOf(choice, tools),
      };
      choice.ignore('routed_experts', 'sampling_mask', 'weight_versions');
      choice.end();
      return read;
    }),
  };
  fields.ignore('model', 'usage', 'prompt_logprobs', 'prompt_token_id_logprobs', 'prompt_token_ids', 'mm_placeholders');
  fields.ignore('metrics', 'kv_transfer_params', 'ec_transfer_params');
  fields.end();
  return generated;
}

/** vLLM's `GenerateLogProbs`. */
function logprobsOf(choice: Fields, { facts }: RenderTools): readonly TokenLogprobs[] | undefined {
  const given = choice.object('logprobs');
  const content = given?.objects('content');
  const tokens = content?.map((entry) => {
    const one = (fields: Fields) => {
      const tokenId =
        fields.integer('token_id', 0, facts.vocabularySize - 1) ?? fields.refuse('token_id', 'is missing');
      const logprob = fields.number('logprob') ?? fields.refuse('logprob', 'is missing');
      const rank = fields.integer('rank', 1, MOST_INTEGER) ?? 0;
      return { tokenId, logprob, rank };
    };
    const top = (entry.objects('top_logprobs') ?? []).map((likely) => {
      const read = one(likely);
      likely.end();
      return read;
    });
    const read = { ...one(entry), top };
    entry.end();
    return read;
  });
  given?.end();
  return tokens as readonly TokenLogprobs[] | undefined;
}

/** Reads the tokens of a sequence as the server reads its own: text, reasoning and calls, up to where they stop. */
function readChoice(
  { index, ids, finishReason }: GeneratedChoice,
  request: GenerateStreamRequest | undefined,
  { facts, encoder }: RenderTools,
): { readonly completion: CompletionMessage; readonly finish: string } {
  const { tokenizer } = encoder;
  const chat = request?.input?.$case === 'chat' ? request.input : undefined;
  const answer = chat && answerOptions(chat.value, facts, { tokenizer, ids: encodeInput(chat, encoder) });
  const { stop, output } = request ?? {};
  const options: StopOptions = {
    strings: new StopStrings(stop?.strings ?? []),
    tokenIds: new Set(stop?.tokenIds ?? []),
    includeStopString: stop?.includeStopString ?? false,
    ignoreEos: stop?.ignoreEos ?? false,
    // The engine's own limits have ended it.
    maxTokens: Number.POSITIVE_INFINITY,
    minTokens: stop?.minTokens ?? 0,
    includeSpecialTokens: output?.includeSpecialTokens ?? false,
  };
  const reader = new Completion(tokenizer, options, answer && answerParser(answer));
  const completion = CompletionMessage.fromPartial({ index });
  let finish: Finish | undefined;
  const take = ({ text, beside, finish: end }: ReturnType<Completion['push']>): void => {
    completion.text += text;
    if (beside !== undefined) addParts(completion, beside);
    finish = end;
  };
  for (const id of ids) {
    take(reader.push(id));
    if (finish !== undefined) break;
  }
  const engines: Finish = finishReason === 'length' ? { reason: 'length' } : { reason: 'stop' };
  if (finish === undefined) take(reader.end(engines));
  if (Buffer.byteLength(completion.text) > MAX_ANSWER_TEXT_BYTES)
    throw new RocmForgeError('MESSAGE_TOO_LARGE', `the text has more than ${MAX_ANSWER_TEXT_BYTES} bytes`);
  const reason = (finish ?? engines).reason;
  return { completion, finish: reason === 'time_limit' ? 'length' : reason };
}

const namesOf = ({ encoder: { tokenizer } }: RenderTools): TokenNames => ({
  tokenText: (id) => Buffer.from(tokenizer.tokenBytes(id)).toString(),
  tokenBytes: (id) => tokenizer.tokenBytes(id),
});

/** The id of a response: that of the rendered request, which has the prefix already. */
const idOf = (prefix: string, id: string): string => (id.startsWith(prefix) ? id : `${prefix}${id}`);

const headOf = (generated: Generated | undefined, model: string) => ({
  created: generated?.created ?? Math.floor(Date.now() / 1000),
  model,
});

function usageOf(prompt: number, choices: readonly GeneratedChoice[]): unknown {
  const completion = choices.reduce((sum, { ids }) => sum + ids.length, 0);
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
}
