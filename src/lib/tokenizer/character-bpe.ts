import type { GgufMetadata } from '../gguf/metadata.js';
import { quoted } from '../support/quoted.js';
import { pairOf } from './byte-level-bpe.js';
import { TokenizerError } from './error.js';
import type { IdBuffer } from './id-buffer.js';
import { MergeTable } from './merge-table.js';
import { byteToken } from './sentencepiece.js';
import { mergeSymbols } from './symbol-merger.js';
import type { TextModel } from './text-model.js';
import type { Vocabulary } from './vocabulary.js';
import { WordCache } from './word-cache.js';

/** A space as tokens spell it. */
const SPACE_MARK = '▁';

/**
 * BPE over characters (`tokenizer.ggml.model` = "gemma4"): spaces are marks, merges come in the order of a list, and a character
 * that is not a token becomes its UTF-8 bytes. Merges stay within a line; line ends in a row that are a token are that token.
 */
export class CharacterBpeModel implements TextModel {
  private readonly table: MergeTable;
  private readonly symbolByCharacter = new Map<string, number>();
  private readonly byteIds: Int32Array;
  /** Stands for every character that is not a token. */
  private readonly foreignSymbol: number;
  /** True if no merge crosses the start of a word, so that words can be encoded by themselves. */
  private readonly cutsAtSpaces: boolean;
  private readonly words = new WordCache();

  /** @throws TokenizerError `TOKENIZER_INVALID` when merges are missing, or join or make what is not a token */
  constructor(
    metadata: GgufMetadata,
    private readonly vocabulary: Vocabulary,
  ) {
    const merges = metadata.strings('tokenizer.ggml.merges');
    if (merges === undefined)
      throw new TokenizerError('TOKENIZER_INVALID', 'the model file has no "tokenizer.ggml.merges"');
    this.byteIds = Int32Array.from({ length: 256 }, (_, byte) => byteToken(vocabulary, byte));
    this.foreignSymbol = vocabulary.size;
    vocabulary.texts.forEach((text, id) => {
      const isCharacter = text.length === (text.codePointAt(0)! > 0xffff ? 2 : 1);
      if (isCharacter && vocabulary.isPlain(id) && vocabulary.idOf(text) === id) this.symbolByCharacter.set(text, id);
    });
    this.symbolByCharacter.set(' ', this.symbolByCharacter.get(SPACE_MARK) ?? this.foreignSymbol);
    this.table = new MergeTable(merges.length);
    let cutsAtSpaces = true;
    merges.forEach((merge, rank) => {
      const [left, right] = pairOf(merge, rank);
      const [first, second, made] = [left, right, left + right].map((text) => this.tokenOf(text, rank, merge));
      this.table.add(first as number, second as number, rank, made as number);
      cutsAtSpaces &&= !/[^▁]▁/u.test(left + right);
    });
    this.cutsAtSpaces = cutsAtSpaces;
  }

  encode(text: string, _followsSpecial: boolean, output: IdBuffer): void {
    for (const [line] of text.matchAll(this.cutsAtSpaces ? WORDS : LINES)) {
      const id = line.startsWith('\n') ? this.vocabulary.idOf(line) : undefined;
      if (id !== undefined && this.vocabulary.isPlain(id)) output.push(id);
      else this.words.encode(line, output, this.encodeWord);
    }
  }

  private readonly encodeWord = (word: string, output: IdBuffer): void => {
    const characters = [...word];
    const symbols = Int32Array.from(characters, (character, i) => {
      const symbol = this.symbolByCharacter.get(character);
      // Foreign characters merge with nothing: which one it is stands behind the vocabulary.
      return symbol === undefined || symbol === this.foreignSymbol ? this.foreignSymbol + i : symbol;
    });
    const left = mergeSymbols(symbols, symbols.length, this.table);
    for (let i = 0; i < left; i++) {
      const symbol = symbols[i] as number;
      if (symbol < this.foreignSymbol) output.push(symbol);
      else this.emitBytes(characters[symbol - this.foreignSymbol] as string, output);
    }
  };

  /** The byte tokens of a character; bytes without one are dropped. */
  private emitBytes(character: string, output: IdBuffer): void {
    for (const byte of Buffer.from(character === ' ' ? SPACE_MARK : character)) {
      const id = this.byteIds[byte] as number;
      if (id >= 0) output.push(id);
    }
  }

  private tokenOf(text: string, rank: number, merge: string): number {
    const id = this.vocabulary.idOf(text);
    if (id !== undefined && this.vocabulary.isPlain(id)) return id;
    const message = `merge ${rank} (${quoted(merge)}) has to do with ${quoted(text)}, which is not a token`;
    throw new TokenizerError('TOKENIZER_INVALID', message);
  }
}

/** Runs of line ends, and what is between. */
const LINES = /\n+|[^\n]+/gu;
/** The same, cut where spaces begin. */
const WORDS = /\n+|[ ▁]*[^\n ▁]+|[ ▁]+/gu;
