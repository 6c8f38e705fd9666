import type { Tokenizer } from '../../../lib/tokenizer/tokenizer.js';
import { RocmForgeError } from '../../../shared/errors.js';
import type { ChatInput, GenerateStreamRequest, PromptPart } from '../../../shared/generated/rocmforge/v1/inference.js';

/** Text that a request continues. */
export type PromptInput = NonNullable<GenerateStreamRequest['input']>;

/** Encoder of inputs. */
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
    throw new RocmForgeError('INVALID_FIELD', 'input is missing: give text, tokens, chat or mixed', { field: 'input' });
  }
  const ids = encodeKind(input, encoder);
  if (ids.length > 0) return ids;
  throw new RocmForgeError('INVALID_FIELD', `${input.$case} is empty; it must have at least one token`, {
    field: input.$case === 'text' ? 'text.text' : input.$case,
  });
}

/** @throws RocmForgeError `INVALID_FIELD`, `TOKEN_OUT_OF_RANGE` */
function encodeParts(parts: readonly PromptPart[], encoder: PromptEncoder): Uint32Array {
  const ids: number[] = [];
  parts.forEach(({ part }, i) => {
    if (part === undefined) {
      throw new RocmForgeError('INVALID_FIELD', `mixed.parts[${i}] is empty`, { field: 'mixed.parts' });
    }
    const isFirst = i === 0;
    const given = part.$case === 'text' && !isFirst ? { ...part, value: { ...part.value, addSpecial: false } } : part;
    // One by one: those of a long text are more than a call takes as arguments.
    for (const id of encodeKind(given, encoder)) ids.push(id);
  });
  return Uint32Array.from(ids);
}

function encodeKind(input: PromptInput, encoder: PromptEncoder): Uint32Array {
  const { tokenizer, vocabularySize, encodeChat } = encoder;
  switch (input.$case) {
    case 'text': {
      const { text, parseSpecial, addSpecial } = input.value;
      // If the model requires one, an empty text is its BOS.
      return Uint32Array.from(tokenizer.encodePrompt(text, { parseSpecial, addSpecial: addSpecial ?? true }));
    }
    case 'tokens':
      checkTokenIds(input.value.ids, vocabularySize, 'tokens.ids');
      return Uint32Array.from(input.value.ids);
    case 'chat':
      return Uint32Array.from(encodeChat(input.value));
    case 'mixed':
      return encodeParts(input.value.parts, encoder);
  }
}

/** @throws RocmForgeError `TOKEN_OUT_OF_RANGE` */
export function checkTokenIds(ids: readonly number[], vocabularySize: number, field: string): void {
  for (const id of ids) {
    if (id < vocabularySize) continue;
    throw new RocmForgeError('TOKEN_OUT_OF_RANGE', `token id ${id} is not below ${vocabularySize}`, { field });
  }
}
