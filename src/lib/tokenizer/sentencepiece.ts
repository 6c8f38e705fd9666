import { TokenizerError } from './error.js';
import type { IdBuffer } from './id-buffer.js';
import { MergeTable } from './merge-table.js';
import { mergeSymbols } from './symbol-merger.js';
import type { TextModel } from './text-model.js';
import type { Vocabulary } from './vocabulary.js';
import { WordCache } from './word-cache.js';

/** SentencePiece writes a space as U+2581, LOWER ONE EIGHTH BLOCK. */
const SPACE_MARK = '▁';
const SPACE_MARK_UNIT = 0x2581;

/**
 * Limit of the sum over all tokens of the square of each one's length. Published vocabularies have 32 Mi at most; a second is
 * some 2^29.
 */
const MOST_COMPARED = 2 ** 28;

/**
 * SentencePiece BPE (`tokenizer.ggml.model` = "llama"): neighbouring symbols merge while their concatenation is a token,
 * the best score first and leftmost among equals; a character that is not a token becomes its UTF-8 bytes.
 *
 * Every way to cut a token into two symbols is put into a {@link MergeTable} at load, so encoding never builds a string.
 * Control, unknown and byte tokens take no part (as in SentencePiece itself): text never merges into `</s>`.
 */
export class SentencePieceModel implements TextModel {
  private readonly table: MergeTable;
  private readonly symbolByCharacter = new Map<string, number>();
  /** UTF-16 units that a symbol covers. */
  private readonly symbolLengths: number[];
  private readonly byteIds: Int32Array;
  /** Stands for every character that occurs in no token. */
  private readonly foreignSymbol: number;
  private readonly cutsAtSpaces: boolean;
  private readonly words = new WordCache();

  /** @param addSpacePrefix whether a text, and what follows a special token, starts with a space of its own */
  constructor(
    private readonly vocabulary: Vocabulary,
    private readonly addSpacePrefix: boolean,
  ) {
    this.symbolLengths = vocabulary.texts.map((text) => text.length);
    this.byteIds = Int32Array.from({ length: 256 }, (_, byte) => byteToken(vocabulary, byte));
    this.table = this.buildTable();
    this.foreignSymbol = this.symbolLengths.length;
    // A space is read as its mark, which saves writing the text anew.
    this.symbolByCharacter.set(' ', this.symbolByCharacter.get(SPACE_MARK) ?? this.foreignSymbol);
    // If no token has a mark after another character, no merge ever crosses the start of a word.
    this.cutsAtSpaces = vocabulary.texts.every((text, id) => !vocabulary.isPlain(id) || !/[^▁]▁/u.test(text));
  }

  encode(text: string, followsSpecial: boolean, output: IdBuffer): void {
    const prefix = this.addSpacePrefix && followsSpecial ? SPACE_MARK : '';
    if (!this.cutsAtSpaces) {
      this.encodeWord(prefix + text, output);
      return;
    }
    let end = endOfWord(text, 0);
    this.words.encode(prefix + text.slice(0, end), output, this.encodeWord);
    while (end < text.length) {
      const start = end;
      end = endOfWord(text, start);
      this.words.encode(text.slice(start, end), output, this.encodeWord);
    }
  }

  private readonly encodeWord = (word: string, output: IdBuffer): void => {
    const symbols = new Int32Array(word.length);
    let length = 0;
    for (const character of word) symbols[length++] = this.symbolByCharacter.get(character) ?? this.foreignSymbol;
    const left = mergeSymbols(symbols, length, this.table);

    let offset = 0;
    for (let i = 0; i < left; i++) {
      const symbol = symbols[i]!;
      if (symbol < this.vocabulary.size) {
        output.push(symbol);
        offset += this.symbolLengths[symbol]!;
      } else {
        const codePoint = word.codePointAt(offset)!;
        this.emitBytes(codePoint, output);
        offset += codePoint > 0xffff ? 2 : 1;
      }
    }
  };

  /** The byte tokens of a character; a vocabulary without them and without an unknown token drops it. */
  private emitBytes(codePoint: number, output: IdBuffer): void {
    const emit = (byte: number) => {
      if (this.byteIds[byte]! >= 0) output.push(this.byteIds[byte]!);
    };
    if (codePoint < 0x80) {
      emit(codePoint);
      return;
    }
    const continuations = codePoint < 0x800 ? 1 : codePoint < 0x10000 ? 2 : 3;
    emit(((0xff00 >> (continuations + 1)) & 0xff) | (codePoint >> (6 * continuations)));
    for (let i = continuations - 1; i >= 0; i--) emit(0x80 | ((codePoint >> (6 * i)) & 0x3f));
  }

  private buildTable(): MergeTable {
    const { vocabulary } = this;
    const ranks = ranksByScore(vocabulary);
    const merges: number[] = [];
    checkCuts(vocabulary);
    for (let id = 0; id < vocabulary.size; id++) {
      const text = vocabulary.texts[id]!;
      if (!vocabulary.isPlain(id) || vocabulary.idOf(text) !== id) continue;
      const characters = [...text];
      for (const character of characters) this.symbolOfCharacter(character);
      for (let cut = 0, i = 0; i + 1 < characters.length; i++) {
        cut += characters[i]!.length;
        const left = this.symbolOf(text.slice(0, cut), i === 0);
        const right = left < 0 ? -1 : this.symbolOf(text.slice(cut), i + 2 === characters.length);
        if (right >= 0) merges.push(left, right, ranks[id]!, id);
      }
    }
    const table = new MergeTable(merges.length / 4);
    for (let i = 0; i < merges.length; i += 4) table.add(merges[i]!, merges[i + 1]!, merges[i + 2]!, merges[i + 3]!);
    return table;
  }

  private symbolOf(text: string, isCharacter: boolean): number {
    if (isCharacter) return this.symbolOfCharacter(text);
    const id = this.vocabulary.idOf(text);
    return id !== undefined && this.vocabulary.isPlain(id) ? id : -1;
  }

  /** A character's token, or a symbol above all tokens for one that only occurs inside longer tokens. */
  private symbolOfCharacter(character: string): number {
    let symbol = this.symbolByCharacter.get(character);
    if (symbol === undefined) {
      const id = this.vocabulary.idOf(character);
      symbol = id !== undefined && this.vocabulary.isPlain(id) ? id : this.symbolLengths.push(character.length) - 1;
      this.symbolByCharacter.set(character, symbol);
    }
    return symbol;
  }
}

/** @throws TokenizerError `TOKENIZER_INVALID` for tokens that are so long that looking at all their cuts takes too long */
function checkCuts(vocabulary: Vocabulary): void {
  let compared = 0;
  vocabulary.texts.forEach(({ length }, id) => {
    if (vocabulary.isPlain(id)) compared += length * length;
  });
  if (compared <= MOST_COMPARED) return;
  const problem = `has tokens whose cuts have ${compared} characters; at most ${MOST_COMPARED} are compared`;
  throw new TokenizerError('TOKENIZER_INVALID', `metadata key "tokenizer.ggml.tokens" ${problem}`);
}

/** The end of the word at `start`: spaces or marks, then everything up to the next. */
function endOfWord(text: string, start: number): number {
  let end = start;
  while (end < text.length && isSpace(text.charCodeAt(end))) end++;
  while (end < text.length && !isSpace(text.charCodeAt(end))) end++;
  return end;
}

function isSpace(unit: number): boolean {
  return unit === 0x20 || unit === SPACE_MARK_UNIT;
}

/** Dense ranks of the scores, 0 for the highest; equal scores share a rank, so that the position decides. */
function ranksByScore(vocabulary: Vocabulary): Int32Array {
  const descending = [...new Set(vocabulary.scores)].sort((a, b) => b - a);
  const rankOf = new Map(descending.map((score, rank) => [score, rank]));
  return Int32Array.from(vocabulary.scores, (score) => rankOf.get(score)!);
}

/** Id of a byte's token: the one named after it, an ASCII character's own, or the unknown token; −1: none. */
export function byteToken(vocabulary: Vocabulary, byte: number): number {
  const name = `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`;
  const plain = byte < 0x80 ? vocabulary.idOf(String.fromCharCode(byte)) : undefined;
  return vocabulary.idOf(name) ?? plain ?? vocabulary.unknownId ?? -1;
}
