import { RocmForgeError } from '../../../shared/errors.js';
import type { ChatInput } from '../../../shared/generated/rocmforge/v1/inference.js';
import { checkLimits, checkModelName, type LimitFacts, MAX_ANSWER_TEXT_BYTES } from '../../request/limits.js';
import { checkBegun, checkGeneration } from '../../request/validate.js';
import type { DetokenizerOptions } from '../../tokenizer/detokenizer.js';
import { checkTokenIds, encodeInput, type PromptEncoder } from '../../tokenizer/prompt.js';
import { countRequest } from './anthropic/messages-request.js';
import { areIds, Fields } from './fields.js';
import { parseJson, readGeneration } from './json-forms.js';
import { conversationOf } from './openai/chat-request.js';

/** What texts are answered from. */
export interface TextTools {
  readonly facts: LimitFacts;
  readonly encoder: PromptEncoder;
  detokenize(ids: readonly number[], options: DetokenizerOptions): string;
  render(chat: ChatInput): string;
}

/** Answers about texts that no model computes: JSON in, what is answered as JSON out. */
export const TEXT_ANSWERS = {
  /** llama.cpp's `POST /tokenize`. */
  tokenize: (body, { facts, encoder }) => {
    const fields = new Fields(body);
    const text = fields.string('content') ?? fields.refuse('content', 'is missing');
    const addSpecial = fields.boolean('add_special') ?? false;
    const parseSpecial = fields.boolean('parse_special') ?? true;
    const withPieces = fields.boolean('with_pieces') ?? false;
    checkModelName(fields.string('model') ?? '', facts);
    fields.end();
    const isNothing = text === '' && !addSpecial;
    const input = { $case: 'text', value: { text, parseSpecial, addSpecial } } as const;
    const ids = isNothing ? [] : Array.from(encodeInput(input, encoder));
    if (!withPieces) return { tokens: ids };
    if (ids.length * PIECE_CHARACTERS > MAX_ANSWER_TEXT_BYTES) throw responseTooLarge();
    return { tokens: ids.map((id) => ({ id, piece: pieceOf(encoder.tokenizer.tokenBytes(id)) })) };
  },
  /** llama.cpp's `POST /detokenize`. */
  detokenize: (body, { facts, detokenize }) => {
    const fields = new Fields(body);
    const tokenIds = fields.rounded('tokens');
    if (!areIds(tokenIds)) return fields.refuse('tokens', 'is no list of token ids');
    checkModelName(fields.string('model') ?? '', facts);
    fields.end();
    checkLimits({ tokenIds: [...tokenIds] }, facts);
    checkTokenIds(tokenIds, facts.vocabularySize, 'token_ids');
    return { content: detokenize(tokenIds, { wholeText: true, includeSpecial: true }) };
  },
  /** llama.cpp's `POST /apply-template`: what a conversation is to the model. */
  template: (body, { facts, render }) => {
    const fields = new Fields(body);
    const chat = conversationOf(fields);
    fields.ignore('model');
    fields.end();
    checkLimits({ input: { $case: 'chat', value: chat } }, facts);
    checkBegun(chat);
    return { prompt: render(chat) };
  },
  /** llama.cpp's `POST /v1/chat/completions/input_tokens`: how many tokens such a request has. */
  inputTokens: (body, { facts, encoder }) => {
    const [message] = readGeneration('chat', body).messages;
    if (message === undefined) throw new RocmForgeError('INTERNAL', 'a chat without a message');
    checkGeneration(message, facts);
    return { object: 'response.input_tokens', input_tokens: encodeInput(message.input, encoder).length };
  },
  /** Anthropic's `POST /v1/messages/count_tokens`. */
  messagesTokens: (body, { facts, encoder }) => {
    const [message] = countRequest(body).messages;
    if (message === undefined) throw new RocmForgeError('INTERNAL', 'a chat without a message');
    checkGeneration(message, facts);
    return { input_tokens: encodeInput(message.input, encoder).length };
  },
} satisfies Record<string, (body: unknown, tools: TextTools) => unknown>;

export type TextForm = keyof typeof TEXT_ANSWERS;

/** Characters of a token with its piece, about. */
const PIECE_CHARACTERS = 32;

/**
 * Answers a request about a text, from bytes to bytes.
 *
 * @throws RocmForgeError `MALFORMED_MESSAGE`; `MESSAGE_TOO_LARGE` for an answer beyond {@link MAX_ANSWER_TEXT_BYTES}; of
 *   fields, limits, the tokenizer and the chat template
 */
export function answerText(form: TextForm, bytes: Uint8Array, tools: TextTools): Uint8Array {
  const answer: Buffer = Buffer.from(JSON.stringify(TEXT_ANSWERS[form](parseJson(bytes), tools)));
  if (answer.length > MAX_ANSWER_TEXT_BYTES) throw responseTooLarge();
  // With its memory to itself it goes to another thread without a copy.
  return new Uint8Array(answer);
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
