import type { Tokenizer } from './tokenizer.js';

export interface DetokenizerOptions {
  /**
   * True if the ids are a whole text. A generation continues its prompt instead, so its first space is real; the first
   * space of a whole SentencePiece text was put there by the tokenizer and is dropped.
   */
  readonly wholeText: boolean;
  /** True if special tokens are written by their names; default false. */
  readonly includeSpecial?: boolean;
}

/**
 * Ids to text, a few at a time. A character is returned when its last byte has come, so the chunks joined are the text of
 * all ids at once, however they were split. Bytes that are no UTF-8 become U+FFFD, as in `TextDecoder`.
 */
export class Detokenizer {
  // A byte order mark that a model writes is text, not a signature.
  private readonly decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  /** True if the decoder holds nothing back. */
  private isAtBoundary = true;
  private dropsSpace: boolean;
  private readonly includeSpecial: boolean;

  constructor(
    private readonly tokenizer: Tokenizer,
    options: DetokenizerOptions,
  ) {
    this.dropsSpace = options.wholeText && tokenizer.addSpacePrefix;
    this.includeSpecial = options.includeSpecial ?? false;
  }

  /**
   * Text that `id` completes; often empty for a part of a character, and for special tokens.
   *
   * @throws TokenizerError `TOKEN_OUT_OF_RANGE`
   */
  push(id: number): string {
    let bytes = this.tokenizer.tokenBytes(id);
    const isName = !this.tokenizer.isRendered(id);
    if (isName && !this.includeSpecial) return '';
    if (this.dropsSpace && !isName) {
      this.dropsSpace = false;
      if (bytes[0] === 0x20) bytes = bytes.subarray(1);
    }
    // Most tokens are ASCII, and nothing is cheaper to decode; what the decoder holds back must come first.
    if (isAscii(bytes)) {
      if (this.isAtBoundary) return asciiText(bytes);
      this.isAtBoundary = true;
    } else this.isAtBoundary = false;
    return this.decoder.decode(bytes, { stream: true });
  }

  /** The rest: U+FFFD for a character that never became whole. Ends the text; the next `push` starts another. */
  finish(): string {
    this.isAtBoundary = true;
    return this.decoder.decode();
  }
}

/** The longest token that is looked through. */
const ASCII_BYTES = 16;

function isAscii(bytes: Uint8Array): boolean {
  if (bytes.length > ASCII_BYTES) return false;
  for (let i = 0; i < bytes.length; i++) if ((bytes[i] as number) >= 0x80) return false;
  return true;
}

function asciiText(bytes: Uint8Array): string {
  let text = '';
  for (let i = 0; i < bytes.length; i++) text += String.fromCharCode(bytes[i] as number);
  return text;
}

/**
 * The text of a whole list of ids: `detokenize(encode(text))` is `text`.
 *
 * @throws TokenizerError `TOKEN_OUT_OF_RANGE`
 */
export function detokenize(
  tokenizer: Tokenizer,
  ids: Iterable<number>,
  options: DetokenizerOptions = { wholeText: true },
): string {
  const detokenizer = new Detokenizer(tokenizer, options);
  let text = '';
  for (const id of ids) text += detokenizer.push(id);
  return text + detokenizer.finish();
}
