import { RocmForgeError } from '../../shared/errors.js';
import type { ChatInput, GenerateStreamRequest } from '../../shared/generated/rocmforge/v1/inference.js';
import type { Tokenizer } from './tokenizer.js';

/** What a request is to continue. */
export type PromptInput = NonNullable<GenerateStreamRequest['input']>;

/** What turns inputs into ids. */
export interface PromptEncoder {
  readonly tokenizer: Tokenizer;
  readonly vocabularySize: number;
  /** Renders and encodes a conversation. */
  encodeChat(chat: ChatInput): Int32Array;
}

/**
 * The token ids of an input.
 *
 * @throws RocmForgeError `INVALID_FIELD`, `TOKEN_OUT_OF_RANGE`, or one of the tokenizer's and the chat template's
 */
export function encodeInput(input: PromptInput | undefined, encoder: PromptEncoder): Uint32Array {
  if (input === undefined) {
    throw new RocmForgeError('INVALID_FIELD', 'input is missing: give text, tokens or chat', { field: 'input' });
  }
  const ids = encodeKind(input, encoder);
  if (ids.length > 0) return ids;
  throw new RocmForgeError('INVALID_FIELD', `${input.$case} is empty: there is nothing to continue`, {
    field: input.$case === 'text' ? 'text.text' : input.$case,
  });
}

function encodeKind(input: PromptInput, { tokenizer, vocabularySize, encodeChat }: PromptEncoder): Uint32Array {
  switch (input.$case) {
    case 'text': {
      const { text, parseSpecial, addSpecial } = input.value;
      // Where the model wants one, an empty text is its BOS.
      return Uint32Array.from(tokenizer.encodePrompt(text, { parseSpecial, addSpecial: addSpecial ?? true }));
    }
    case 'tokens':
      checkTokenIds(input.value.ids, vocabularySize, 'tokens.ids');
      return Uint32Array.from(input.value.ids);
    case 'chat':
      return Uint32Array.from(encodeChat(input.value));
  }
}

/** @throws RocmForgeError `TOKEN_OUT_OF_RANGE` */
export function checkTokenIds(ids: readonly number[], vocabularySize: number, field: string): void {
  for (const id of ids) {
    if (id < vocabularySize) continue;
    throw new RocmForgeError('TOKEN_OUT_OF_RANGE', `token id ${id} is not below ${vocabularySize}`, { field });
  }
}
