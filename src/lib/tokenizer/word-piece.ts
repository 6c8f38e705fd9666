import type { GgufMetadata } from '../gguf/metadata.js';
import { CODE_POINT_CLASSES, CodePointClass } from '../unicode/code-point-classes.js';
import { TokenizerError } from './error.js';
import type { IdBuffer } from './id-buffer.js';
import type { TextModel } from './text-model.js';
import type { Vocabulary } from './vocabulary.js';
import { WordCache } from './word-cache.js';

/** Mark of the tokens that begin a word; others continue one. */
const WORD_MARK = '▁';
/** Longer words become the unknown token, as in BERT. Characters. */
const LONGEST_WORD = 100;

/** Controls that BERT takes for white space; it drops the others. */
const SPACE_CONTROLS = '\t\n\r';
const REPLACEMENT_CHARACTER = 0xfffd;
const MARKS_OF_NO_WIDTH = /\p{Mn}+/gu;
const OTHERS = /[\p{Cc}\p{Cf}\p{Co}]/u;
const ASCII_SYMBOLS = '$+<=>^`|~';

/** Ideographs that stand for themselves, from each first code point to the last. The fifth begins later than its block, as in BERT’s library. */
const IDEOGRAPHS: readonly (readonly [first: number, last: number])[] = [
  [0x4e00, 0x9fff],
  [0x3400, 0x4dbf],
  [0x20000, 0x2a6df],
  [0x2a700, 0x2b73f],
  [0x2b740, 0x2b81f],
  [0x2b920, 0x2ceaf],
  [0xf900, 0xfaff],
  [0x2f800, 0x2fa1f],
];

/**
 * WordPiece (`tokenizer.ggml.model` = "bert"): Devlin et al. (2019). Words are cut at white space, punctuation and ideographs; a word
 * is its longest token, then the longest of what is left, and the unknown token if something is left that is none. As the file says,
 * letters are lowercased first, and marks of no width dropped from their canonical decomposition.
 */
export class WordPieceModel implements TextModel {
  private readonly lowercases: boolean;
  private readonly stripsMarks: boolean;
  private readonly unknownId: number;
  /** Ids of tokens that ordinary text may become. */
  private readonly ids = new Map<string, number>();
  private readonly longest: number;
  private readonly words = new WordCache();

  /** @throws TokenizerError `TOKENIZER_INVALID` without an unknown token */
  constructor(metadata: GgufMetadata, vocabulary: Vocabulary) {
    this.lowercases = metadata.boolean('tokenizer.ggml.normalizer.lowercase') ?? true;
    this.stripsMarks = metadata.boolean('tokenizer.ggml.normalizer.strip_accents') ?? this.lowercases;
    const { unknownId } = vocabulary;
    if (unknownId === undefined)
      throw new TokenizerError('TOKENIZER_INVALID', 'the vocabulary of words has no unknown token');
    this.unknownId = unknownId;
    let longest = 0;
    vocabulary.texts.forEach((text, id) => {
      if (text === '' || vocabulary.idOf(text) !== id || !vocabulary.isPlain(id)) return;
      this.ids.set(text, id);
      longest = Math.max(longest, text.length);
    });
    this.longest = longest;
  }

  encode(text: string, _followsSpecial: boolean, output: IdBuffer): void {
    for (const word of wordsOf(this.normalized(text))) this.words.encode(word, output, this.encodeWord);
  }

  /** The text without controls, ideographs apart, and lowercase and without marks as the file says. */
  private normalized(text: string): string {
    let cleaned = '';
    for (const character of text) {
      const codePoint = character.codePointAt(0) as number;
      if (isSpace(character, codePoint)) cleaned += ' ';
      else if (isDropped(character, codePoint)) continue;
      else cleaned += isIdeograph(codePoint) ? ` ${character} ` : character;
    }
    if (this.stripsMarks) cleaned = cleaned.normalize('NFD').replace(MARKS_OF_NO_WIDTH, '');
    return this.lowercases ? lowercased(cleaned) : cleaned;
  }

  private readonly encodeWord = (word: string, output: IdBuffer): void => {
    const pieces = this.piecesOf(word);
    if (pieces === undefined) output.push(this.unknownId);
    else for (const id of pieces) output.push(id);
  };

  /** The longest tokens of a word, one after the other; undefined where some of it is not a token. */
  private piecesOf(word: string): readonly number[] | undefined {
    if (word.length > LONGEST_WORD && [...word].length > LONGEST_WORD) return undefined;
    const marked = WORD_MARK + word;
    const pieces: number[] = [];
    let at = 0;
    while (at < marked.length) {
      let end = Math.min(marked.length, at + this.longest);
      let id: number | undefined;
      // A token of the mark alone would leave the word without a beginning.
      const least = at === 0 ? 2 : at + 1;
      for (; end >= least; end--) {
        id = this.ids.get(marked.slice(at, end));
        if (id !== undefined) break;
      }
      if (id === undefined) return undefined;
      pieces.push(id);
      at = end;
    }
    return pieces;
  }
}

/** Words of a normalized text: punctuation is a word of its own. */
function* wordsOf(text: string): Generator<string> {
  let start = -1;
  let at = 0;
  for (const character of text) {
    const codePoint = character.codePointAt(0) as number;
    const isBoundary = isSpace(character, codePoint) || isPunctuation(character, codePoint);
    if (isBoundary) {
      if (start >= 0) yield text.slice(start, at);
      start = -1;
      if (isPunctuation(character, codePoint)) yield character;
    } else if (start < 0) start = at;
    at += character.length;
  }
  if (start >= 0) yield text.slice(start);
}

const classOf = (codePoint: number): number => CODE_POINT_CLASSES[codePoint] as number;

/** Unicode’s White_Space, of whose controls only {@link SPACE_CONTROLS} count. */
function isSpace(character: string, codePoint: number): boolean {
  if (isControl(codePoint)) return SPACE_CONTROLS.includes(character);
  return (classOf(codePoint) & CodePointClass.space) !== 0;
}

/** Controls, formats and private characters, and what stands for bytes that are no text. Unassigned ones stay. */
const isDropped = (character: string, codePoint: number): boolean =>
  codePoint === REPLACEMENT_CHARACTER || (hasNoClass(codePoint) && OTHERS.test(character));

/** True of what {@link OTHERS} may match: the controls that are white space, and what the table has no class for. */
const hasNoClass = (codePoint: number): boolean => classOf(codePoint) === 0 || isControl(codePoint);

const isControl = (codePoint: number): boolean => codePoint < 0x20 || (codePoint >= 0x7f && codePoint < 0xa0);

const isPunctuation = (character: string, codePoint: number): boolean =>
  (classOf(codePoint) & CodePointClass.punctuation) !== 0 || ASCII_SYMBOLS.includes(character);

const isIdeograph = (codePoint: number): boolean =>
  codePoint >= 0x3400 && IDEOGRAPHS.some(([first, last]) => codePoint >= first && codePoint <= last);

/** Each character by itself: JavaScript takes what is beside a sigma into account. */
const lowercased = (text: string): string => text.replace(/\P{ASCII}/gu, (one) => one.toLowerCase()).toLowerCase();
