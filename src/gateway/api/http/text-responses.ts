import type { DetokenizerOptions } from '../../../lib/tokenizer/detokenizer.js';
import { RocmForgeError } from '../../../shared/errors.js';
import type { ChatInput } from '../../../shared/generated/rocmforge/v1/inference.js';
import { checkTokenIds, encodeInput, type PromptEncoder, type PromptInput } from '../../request/encoding/prompt.js';
import { checkLimits, checkModelName, type LimitFacts, MAX_ANSWER_TEXT_BYTES } from '../../request/limits.js';
import { checkBegun, checkGeneration } from '../../request/validate.js';
import { countRequest } from './anthropic/messages-request.js';
import { namingFields } from './field-names.js';
import { FieldPolicy } from './field-policy.js';
import { areIds, Fields } from './fields.js';
import { parseJson } from './json-forms.js';
import { JsonText, jsonOf } from './json-slices.js';
import { chatRequest, conversationOf } from './openai/chat-request.js';
import { completionRequest } from './openai/completion-request.js';
import { responsesRequest } from './openai/responses-request.js';
import type { FormDefaults } from './request.js';
import { derenderedChat, derenderedCompletions } from './vllm/derender.js';
import { rendered } from './vllm/render.js';

/** Dependencies of the text routes. */
export interface TextTools {
  readonly facts: LimitFacts;
  readonly encoder: PromptEncoder;
  detokenize(ids: readonly number[], options: DetokenizerOptions): string;
  render(chat: ChatInput): string;
}

/** Answers about texts that no model computes: JSON in, what is answered as JSON out. */
export const TEXT_ANSWERS = {
  /** llama.cpp's `POST /tokenize`. */
  tokenize: (body, policy, { facts, encoder }) => {
    const fields = new Fields(body, '', policy);
    if (!fields.has('content') && (fields.has('prompt') || fields.has('messages')))
      return vllmTokens(fields, facts, encoder);
    const text = fields.string('content') ?? fields.refuse('content', 'is missing');
    const addSpecial = fields.boolean('add_special') ?? false;
    const parseSpecial = fields.boolean('parse_special') ?? true;
    const withPieces = fields.boolean('with_pieces') ?? false;
    checkModelName(fields.string('model') ?? '', facts);
    fields.end();
    fields.standsFor('text', 'content');
    const isNothing = text === '' && !addSpecial;
    const input = { $case: 'text', value: { text, parseSpecial, addSpecial } } as const;
    const ids = isNothing ? [] : Array.from(encodeInput(input, encoder));
    if (!withPieces) return { tokens: ids };
    if (ids.length * PIECE_CHARACTERS > MAX_ANSWER_TEXT_BYTES) throw responseTooLarge();
    return { tokens: ids.map((id) => ({ id, piece: pieceOf(encoder.tokenizer.tokenBytes(id)) })) };
  },
  /** `POST /detokenize`: llama.cpp's response has the text as `content`, vLLM's as `prompt`. */
  detokenize: (body, policy, { facts, detokenize }) => {
    const fields = new Fields(body, '', policy);
    const tokenIds = fields.rounded('tokens');
    if (!areIds(tokenIds)) return fields.refuse('tokens', 'is not a list of token ids');
    checkModelName(fields.string('model') ?? '', facts);
    fields.end();
    fields.standsFor('token_ids', 'tokens');
    checkLimits({ tokenIds: [...tokenIds] }, facts);
    checkTokenIds(tokenIds, facts.vocabularySize, 'token_ids');
    const text = detokenize(tokenIds, { wholeText: true, includeSpecial: true });
    if (2 * text.length > MAX_ANSWER_TEXT_BYTES) throw responseTooLarge();
    return { content: text, prompt: text };
  },
  /** llama.cpp's `POST /apply-template`: what a conversation is to the model. */
  template: (body, policy, { facts, render }) => {
    const fields = new Fields(body, '', policy);
    const chat = conversationOf(fields);
    fields.ignore('model');
    fields.end();
    checkLimits({ input: { $case: 'chat', value: chat } }, facts);
    checkBegun(chat);
    return { prompt: render(chat) };
  },
  /** llama.cpp's `POST /v1/chat/completions/input_tokens`: how many tokens such a request has. */
  inputTokens: (body, policy, { facts, encoder }) => {
    const [message] = chatRequest(body, policy, { verbose: false }).messages;
    if (message === undefined) throw new RocmForgeError('INTERNAL', 'a chat without a message');
    checkGeneration(message, facts);
    return { object: 'response.input_tokens', input_tokens: encodeInput(message.input, encoder).length };
  },
  /** OpenAI's `POST /v1/responses/input_tokens`. */
  responsesTokens: (body, policy, { facts, encoder }) => {
    const { messages, form } = responsesRequest(body, policy, { verbose: false });
    const [message] = messages;
    if (message === undefined) {
      const field = form.responses?.needs?.responseId === undefined ? 'input' : 'previous_response_id';
      const what = `${field} refers to a stored response, whose tokens are not counted; send the whole conversation`;
      throw new RocmForgeError('NOT_IMPLEMENTED', what, { field });
    }
    checkGeneration(message, facts);
    return { object: 'response.input_tokens', input_tokens: encodeInput(message.input, encoder).length };
  },
  /** Anthropic's `POST /v1/messages/count_tokens`. */
  messagesTokens: (body, policy, { facts, encoder }) => {
    const [message] = countRequest(body, policy).messages;
    if (message === undefined) throw new RocmForgeError('INTERNAL', 'a chat without a message');
    checkGeneration(message, facts);
    return { input_tokens: encodeInput(message.input, encoder).length };
  },
  /** vLLM's `POST /v1/chat/completions/render`: such a request as one of tokens. */
  renderChat: (body, policy, tools) => {
    const [request] = rendered(chatRequest(body, policy, { verbose: false }), 'chatcmpl-', tools);
    return new JsonText(jsonOf(request));
  },
  /** vLLM's `POST /v1/completions/render`: a list, with one request for each prompt. */
  renderCompletions: (body, policy, tools) =>
    new JsonText(jsonOf(rendered(completionRequest(body, policy, { verbose: false }), 'cmpl-', tools))),
  /** vLLM's `POST /v1/chat/completions/derender` and `/v1/completions/derender`: generated tokens as a response. */
  derenderChat: (body, policy, tools) => new JsonText(jsonOf(derenderedChat(body, policy, tools))),
  derenderCompletions: (body, policy, tools) => new JsonText(jsonOf(derenderedCompletions(body, policy, tools))),
} satisfies Record<string, (body: unknown, policy: FieldPolicy, tools: TextTools) => unknown>;

export type TextForm = keyof typeof TEXT_ANSWERS;

/** vLLM's `POST /tokenize`, of a prompt or a conversation. */
function vllmTokens(fields: Fields, facts: LimitFacts, encoder: PromptEncoder): unknown {
  const text = fields.string('prompt');
  const addSpecial = fields.boolean('add_special_tokens') ?? true;
  const withTexts = fields.boolean('return_token_strs') ?? false;
  const input: PromptInput =
    text === undefined
      ? { $case: 'chat', value: conversationOf(fields) }
      : { $case: 'text', value: { text, parseSpecial: false, addSpecial } };
  checkModelName(fields.string('model') ?? '', facts);
  fields.end();
  fields.standsFor('text', 'prompt');
  checkLimits({ input }, facts);
  if (input.$case === 'chat') checkBegun(input.value);
  const tokens = text === '' && !addSpecial ? [] : Array.from(encodeInput(input, encoder));
  if (withTexts && tokens.length * PIECE_CHARACTERS > MAX_ANSWER_TEXT_BYTES) throw responseTooLarge();
  const texts = withTexts ? tokens.map((id) => Buffer.from(encoder.tokenizer.tokenBytes(id)).toString()) : null;
  return { count: tokens.length, max_model_len: facts.contextLength, tokens, token_strs: texts };
}

/** An answer's JSON, and what of the request had no effect. */
export interface TextAnswer {
  readonly bytes: Uint8Array;
  /** See {@link FieldPolicy.ignored}. */
  readonly ignored: readonly string[];
}

/** Characters of a token with its piece, about. */
const PIECE_CHARACTERS = 32;

/**
 * Answers a request about a text, from bytes to bytes.
 *
 * @throws RocmForgeError `MALFORMED_MESSAGE`; `MESSAGE_TOO_LARGE` for an answer beyond {@link MAX_ANSWER_TEXT_BYTES}; of
 *   fields, limits, the tokenizer and the chat template
 */
export function answerText(
  form: TextForm,
  bytes: Uint8Array,
  { strictFields = false }: FormDefaults,
  tools: TextTools,
): TextAnswer {
  const policy = new FieldPolicy(strictFields);
  const body = parseJson(bytes);
  const value: unknown = namingFields(policy.fieldNames, () => TEXT_ANSWERS[form](body, policy, tools));
  const answer: Buffer = Buffer.from(value instanceof JsonText ? value.text : JSON.stringify(value));
  if (answer.length > MAX_ANSWER_TEXT_BYTES) throw responseTooLarge();
  // With its memory to itself it goes to another thread without a copy.
  return { bytes: new Uint8Array(answer), ignored: policy.ignored };
}

const responseTooLarge = () =>
  new RocmForgeError(
    'MESSAGE_TOO_LARGE',
    `the answer has more than ${MAX_ANSWER_TEXT_BYTES} bytes; send the text in parts`,
  );

/** Its text, or its bytes where they are no text by themselves. */
function pieceOf(bytes: Uint8Array): string | readonly number[] {
  const piece = Buffer.from(bytes).toString();
  return piece.includes('\ufffd') ? [...bytes] : piece;
}
