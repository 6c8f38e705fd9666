import type { GgufMetadata } from '../gguf/metadata.js';
import { quoted } from '../support/quoted.js';
import { characterOfByte } from './byte-alphabet.js';
import { TokenizerError } from './error.js';
import type { IdBuffer } from './id-buffer.js';
import { MergeTable } from './merge-table.js';
import { forEachPiece, type PreTokenizer, preTokenizerNamed } from './pre-tokenizer.js';
import { mergeSymbols } from './symbol-merger.js';
import type { TextModel } from './text-model.js';
import { MOST_TOKEN_CHARACTERS, type Vocabulary } from './vocabulary.js';
import { WordCache } from './word-cache.js';

/** Published vocabularies have half a million, of 6 MiB in all. */
const MOST_MERGES = 1 << 20;
const MOST_MERGES_CHARACTERS = 32 << 20;
/** Two tokens and the space between. */
const MOST_MERGE_CHARACTERS = 2 * MOST_TOKEN_CHARACTERS + 1;

/**
 * The text model of `tokenizer.ggml.model` = "gpt2".
 *
 * @throws TokenizerError `TOKENIZER_UNSUPPORTED` for an unknown pre-tokenizer, `TOKENIZER_INVALID` without merges, and with more or
 *   longer ones than any model has
 */
export function createByteLevelModel(
  metadata: GgufMetadata,
  vocabulary: Vocabulary,
): { readonly model: TextModel; readonly addBosByDefault: boolean } {
  const preTokenizer = preTokenizerNamed(metadata.string('tokenizer.ggml.pre'));
  const merges = metadata.strings('tokenizer.ggml.merges');
  if (merges === undefined) {
    throw new TokenizerError('TOKENIZER_INVALID', 'the model file has no "tokenizer.ggml.merges"');
  }
  checkMerges(merges);
  const model = new ByteLevelModel(vocabulary, merges, preTokenizer);
  return { model, addBosByDefault: preTokenizer.addBosByDefault };
}

/** @throws TokenizerError `TOKENIZER_INVALID` */
function checkMerges(merges: readonly string[]): void {
  const refuse = (problem: string): never => {
    throw new TokenizerError('TOKENIZER_INVALID', `metadata key "tokenizer.ggml.merges" ${problem}`);
  };
  if (merges.length > MOST_MERGES) refuse(`has ${merges.length} merges; at most ${MOST_MERGES} are read`);
  let characters = 0;
  merges.forEach((merge, rank) => {
    characters += merge.length;
    if (merge.length > MOST_MERGE_CHARACTERS) {
      refuse(`has ${merge.length} characters in merge ${rank}; at most ${MOST_MERGE_CHARACTERS} are read`);
    }
  });
  if (characters > MOST_MERGES_CHARACTERS) {
    refuse(`has ${characters} characters in all; at most ${MOST_MERGES_CHARACTERS} are read`);
  }
}

/**
 * Byte-level BPE: text is cut into pieces, the UTF-8 bytes of a piece are its symbols, and listed pairs merge, the
 * earliest in the list first and leftmost among equals.
 */
class ByteLevelModel implements TextModel {
  private readonly table: MergeTable;
  private readonly byteSymbols: Int32Array;
  /** Spelling of the symbols that are no tokens, from `vocabulary.size` on. */
  private readonly extraTexts: string[] = [];
  private readonly extraIds = new Map<string, number>();
  private readonly words = new WordCache();
  private readonly utf8 = new TextEncoder();
  private readonly longestToken: number;

  constructor(
    private readonly vocabulary: Vocabulary,
    merges: readonly string[],
    private readonly preTokenizer: PreTokenizer,
  ) {
    this.byteSymbols = Int32Array.from({ length: 256 }, (_, byte) => this.symbolOf(characterOfByte(byte)));
    this.longestToken = vocabulary.texts.reduce((longest, text) => Math.max(longest, text.length), 0);
    this.table = new MergeTable(merges.length);
    const pairs = merges.map(pairOf);
    const made = new Set(
      pairs.map(([left, right]) => left + right).filter((text) => vocabulary.idOf(text) === undefined),
    );
    pairs.forEach(([left, right], rank) => {
      for (const symbol of [left, right]) {
        // Single characters are bytes, whether or not they have a token.
        if (vocabulary.idOf(symbol) !== undefined || made.has(symbol) || symbol.length === 1) continue;
        const message = `merge ${rank} (${quoted(`${left} ${right}`)}) joins ${quoted(symbol)}, which is not a token and which no merge makes`;
        throw new TokenizerError('TOKENIZER_INVALID', message);
      }
      this.table.add(this.symbolOf(left), this.symbolOf(right), rank, this.symbolOf(left + right));
    });
  }

  encode(text: string, _followsSpecial: boolean, output: IdBuffer): void {
    forEachPiece(text, this.preTokenizer.rules, (start, end) => {
      this.words.encode(text.slice(start, end), output, this.encodeWord);
    });
  }

  private readonly encodeWord = (word: string, output: IdBuffer): void => {
    const bytes = this.utf8.encode(word);
    if (this.preTokenizer.ignoreMerges && bytes.length <= this.longestToken) {
      let spelling = '';
      for (const byte of bytes) spelling += characterOfByte(byte);
      const id = this.vocabulary.idOf(spelling);
      if (id !== undefined && this.vocabulary.isPlain(id)) {
        output.push(id);
        return;
      }
    }
    const symbols = new Int32Array(bytes.length);
    for (let i = 0; i < bytes.length; i++) symbols[i] = this.byteSymbols[bytes[i]!]!;
    const left = mergeSymbols(symbols, symbols.length, this.table);
    for (let i = 0; i < left; i++) this.emit(symbols[i]!, output);
  };

  /**
   * A symbol that is not a token falls back to the tokens of its bytes. A byte without a token is dropped, as the models' own
   * tokenizers drop it: files name `<|endoftext|>` as their unknown token (StarCoder), which nobody's text may become.
   */
  private emit(symbol: number, output: IdBuffer): void {
    if (symbol < this.vocabulary.size) {
      output.push(symbol);
      return;
    }
    for (const character of this.extraTexts[symbol - this.vocabulary.size]!) {
      const id = this.vocabulary.idOf(character);
      if (id !== undefined && this.vocabulary.isPlain(id)) output.push(id);
    }
  }

  /** The token spelled so, or a symbol of its own: merges may pass through strings that are no tokens. */
  private symbolOf(text: string): number {
    const id = this.vocabulary.idOf(text);
    if (id !== undefined && this.vocabulary.isPlain(id)) return id;
    let extra = this.extraIds.get(text);
    if (extra === undefined) {
      extra = this.vocabulary.size + this.extraTexts.push(text) - 1;
      this.extraIds.set(text, extra);
    }
    return extra;
  }
}

/** The two symbols of a merge. A token may begin with what looks like the separator: the search starts behind it. */
export function pairOf(merge: string, rank: number): readonly [left: string, right: string] {
  const cut = merge.indexOf(' ', 1);
  if (cut < 0 || cut === merge.length - 1) {
    throw new TokenizerError(
      'TOKENIZER_INVALID',
      `merge ${rank} (${quoted(merge)}) is not two symbols with a space between`,
    );
  }
  return [merge.slice(0, cut), merge.slice(cut + 1)];
}
