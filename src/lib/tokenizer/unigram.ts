import type { GgufMetadata } from '../gguf/metadata.js';
import { TokenizerError } from './error.js';
import type { IdBuffer, IdSink } from './id-buffer.js';
import { PrecompiledCharsmap } from './precompiled-charsmap.js';
import type { TextModel } from './text-model.js';
import { TokenTrie } from './token-trie.js';
import { TokenType, type Vocabulary } from './vocabulary.js';
import { WordCache } from './word-cache.js';

/** A space as tokens spell it (U+2581), in UTF-8. */
const SPACE_MARK_BYTES = Uint8Array.of(0xe2, 0x96, 0x81);
const REPLACEMENT_BYTES = Uint8Array.of(0xef, 0xbf, 0xbd);
const SPACE = 0x20;

/** Subtracted from the lowest score for what is not a token, as in SentencePiece. */
const UNKNOWN_PENALTY = 10;
/** Stands for a character that is not a token, on the way to {@link Vocabulary.unknownId}. */
const UNKNOWN = -1;

/** Words of a normalized text, each from its marks on. */
const WORDS = /▁*[^▁]+|▁+/gu;

/**
 * Unigram language model (`tokenizer.ggml.model` = "t5"): Kudo (2018). Of all ways to cut a normalized text into tokens the one with
 * the highest sum of scores, found by Viterbi's algorithm; characters that are no token, in a row, are one unknown token.
 */
export class UnigramModel implements TextModel {
  private readonly charsmap: PrecompiledCharsmap | undefined;
  private readonly addsPrefix: boolean;
  private readonly mergesSpaces: boolean;
  private readonly trie: TokenTrie;
  private readonly scores: Float64Array;
  private readonly unknownId: number;
  private readonly unknownScore: number;
  private readonly longest: number;
  /** True if no token crosses the start of a word, so that words can be encoded by themselves. */
  private readonly cutsAtSpaces: boolean;
  private readonly words = new WordCache();

  /** @throws TokenizerError `TOKENIZER_INVALID` without scores or an unknown token, and for a damaged `precompiled_charsmap` */
  constructor(
    metadata: GgufMetadata,
    private readonly vocabulary: Vocabulary,
  ) {
    this.charsmap = PrecompiledCharsmap.of(metadata);
    this.addsPrefix = metadata.boolean('tokenizer.ggml.add_space_prefix') ?? false;
    this.mergesSpaces = metadata.boolean('tokenizer.ggml.remove_extra_whitespaces') ?? false;
    const { unknownId, texts, types } = vocabulary;
    if (unknownId === undefined) invalid('the vocabulary of pieces has no unknown token');
    if (!metadata.has('tokenizer.ggml.scores')) invalid('the model file has no "tokenizer.ggml.scores"');
    this.unknownId = unknownId;
    this.scores = Float64Array.from(vocabulary.scores);
    const entries = new Map<string, number>();
    let [lowest, longest, cutsAtSpaces] = [Number.POSITIVE_INFINITY, 1, true];
    texts.forEach((text, id) => {
      const type = types[id];
      const isNormal = type === TokenType.normal;
      if (!Number.isFinite(this.scores[id]))
        invalid(`metadata key "tokenizer.ggml.scores" is infinite for token ${id}`);
      if (isNormal) lowest = Math.min(lowest, this.scores[id] as number);
      if (type === TokenType.userDefined) this.scores[id] = 0;
      else if (!isNormal && type !== TokenType.unused) return;
      if (text === '') return;
      entries.set(text, id);
      longest = Math.max(longest, text.length);
      cutsAtSpaces &&= !/[^▁]▁/u.test(text);
    });
    if (entries.size === 0) invalid('the vocabulary of pieces has only special tokens');
    this.trie = new TokenTrie(entries);
    this.longest = longest;
    this.cutsAtSpaces = cutsAtSpaces;
    this.unknownScore = Math.fround(lowest - UNKNOWN_PENALTY);
  }

  /** True if a text starts with a space that is not a part of it. */
  get addsSpace(): boolean {
    return this.addsPrefix || this.mergesSpaces;
  }

  encode(text: string, _followsSpecial: boolean, output: IdBuffer): void {
    const normalized = this.normalized(text);
    const found = new Run(output, this.unknownId);
    if (!this.cutsAtSpaces) {
      this.encodePart(normalized, found);
      return;
    }
    for (const [word] of normalized.matchAll(WORDS)) this.words.encode(word, found, this.encodePart);
  }

  /** The text after its replacements, with marks for spaces: one in front, and one for several, as the file says. */
  private normalized(text: string): string {
    const bytes = Buffer.from(text);
    const output = new ByteBuffer(bytes.length + (bytes.length >> 2));
    const { charsmap, addsPrefix, mergesSpaces } = this;
    let [isPrefixed, isInWord] = [false, false];
    const emit = (from: Uint8Array, start: number, end: number): void => {
      for (let i = start; i < end; i++) {
        const byte = from[i] as number;
        if (byte === SPACE) {
          isInWord = false;
          if (!mergesSpaces) output.append(SPACE_MARK_BYTES);
          continue;
        }
        if (!isInWord && ((addsPrefix && !isPrefixed) || mergesSpaces)) {
          output.append(SPACE_MARK_BYTES);
          isPrefixed = true;
        }
        isInWord = true;
        output.push(byte);
      }
    };
    for (let at = 0; at < bytes.length; ) {
      const replaced = charsmap?.longestAt(bytes, at);
      if (charsmap !== undefined && replaced !== undefined && replaced.length > 0) {
        emit(charsmap.replacements, replaced.start, replaced.end);
        at += replaced.length;
        continue;
      }
      const length = characterBytes(bytes[at] as number);
      // A key may end within a character.
      if (length === 0) emit(REPLACEMENT_BYTES, 0, REPLACEMENT_BYTES.length);
      else emit(bytes, at, at + length);
      at += length || 1;
    }
    return output.text();
  }

  /** Scores are needed only as far ahead as tokens reach; for each position the token of the best way there is kept. */
  private readonly encodePart = (text: string, output: IdSink): void => {
    const { trie, scores, unknownScore } = this;
    const best = new Int32Array(text.length + 1);
    const reach = Math.max(2, Math.min(this.longest, text.length));
    const mask = 2 ** Math.ceil(Math.log2(reach + 1)) - 1;
    const sums = new Float64Array(mask + 1).fill(Number.NEGATIVE_INFINITY);
    sums[0] = 0;
    const offer = (end: number, sum: number, id: number): void => {
      if (sum <= (sums[end & mask] as number)) return;
      sums[end & mask] = sum;
      best[end] = id;
    };
    for (let at = 0; at < text.length; ) {
      const sum = sums[at & mask] as number;
      const afterCharacter = at + ((text.codePointAt(at) as number) > 0xffff ? 2 : 1);
      let isToken = false;
      let node = 0;
      for (let end = at; end < text.length; ) {
        node = trie.child(node, text.charCodeAt(end++));
        if (node < 0) break;
        const id = trie.idAt(node);
        if (id < 0) continue;
        isToken ||= end === afterCharacter;
        offer(end, sum + (scores[id] as number), id);
      }
      if (!isToken) offer(afterCharacter, sum + unknownScore, UNKNOWN);
      for (; at < afterCharacter; at++) sums[at & mask] = Number.NEGATIVE_INFINITY;
    }
    this.emitBest(text, best, output);
  };

  /** The tokens of the best way to the end of a text, of which `best` has the last token for each position. */
  private emitBest(text: string, best: Int32Array, output: IdSink): void {
    let count = 0;
    // Filled from its end: what was read there is not needed any more.
    for (let at = text.length; at > 0; ) {
      const id = best[at] as number;
      best[best.length - ++count] = id;
      if (id === UNKNOWN) at -= isTrail(text.charCodeAt(at - 1)) ? 2 : 1;
      else at -= (this.vocabulary.texts[id] as string).length;
    }
    for (let i = best.length - count; i < best.length; i++)
      output.push(best[i] === UNKNOWN ? this.unknownId : (best[i] as number));
  }
}

/** Ids of one text: unknown tokens in a row are one, also across its words. */
class Run implements IdSink {
  private isUnknown = false;

  constructor(
    private readonly output: IdBuffer,
    private readonly unknownId: number,
  ) {}

  push(id: number): void {
    const isUnknown = id === this.unknownId;
    if (!(isUnknown && this.isUnknown)) this.output.push(id);
    this.isUnknown = isUnknown;
  }

  append(ids: Int32Array): void {
    for (let i = 0; i < ids.length; i++) this.push(ids[i] as number);
  }
}

/** Growing bytes. */
class ByteBuffer {
  private bytes: Uint8Array;
  private length = 0;

  constructor(capacity: number) {
    this.bytes = new Uint8Array(Math.max(capacity, 16));
  }

  push(byte: number): void {
    if (this.length === this.bytes.length) this.grow();
    this.bytes[this.length++] = byte;
  }

  append(bytes: Uint8Array): void {
    for (let i = 0; i < bytes.length; i++) this.push(bytes[i] as number);
  }

  /** All as UTF-8. */
  text(): string {
    return Buffer.from(this.bytes.buffer, 0, this.length).toString('utf8');
  }

  private grow(): void {
    const larger = new Uint8Array(2 * this.bytes.length);
    larger.set(this.bytes);
    this.bytes = larger;
  }
}

/** Bytes of the character that begins with one of well-formed UTF-8; 0 within a character. */
function characterBytes(first: number): number {
  if (first < 0x80) return 1;
  if (first < 0xc0) return 0;
  return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

const isTrail = (unit: number): boolean => unit >= 0xdc00 && unit <= 0xdfff;

function invalid(problem: string): never {
  throw new TokenizerError('TOKENIZER_INVALID', problem);
}
