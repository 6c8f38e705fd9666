import { shown } from '../gguf/architecture-keys.js';
import { isHarmlessTokenizerKey } from '../gguf/harmless.js';
import type { GgufMetadata } from '../gguf/metadata.js';
import { cut, quoted } from '../support/quoted.js';
import { createByteLevelModel } from './byte-level-bpe.js';
import { CharacterBpeModel } from './character-bpe.js';
import { TokenizerError } from './error.js';
import { IdBuffer } from './id-buffer.js';
import { SentencePieceModel } from './sentencepiece.js';
import { SpecialTokenSplitter } from './special-tokens.js';
import type { TextModel } from './text-model.js';
import { TokenBytes } from './token-bytes.js';
import { UnigramModel } from './unigram.js';
import { Vocabulary } from './vocabulary.js';
import { WordPieceModel } from './word-piece.js';

export interface EncodeOptions {
  /** True if the names of control tokens in the text are those tokens. Never for a user's text. */
  readonly parseSpecial: boolean;
  /** Ascending UTF-16 offsets that no control token may span; see {@link ChatPrompt}. */
  readonly breaks?: readonly number[] | undefined;
}

export interface PromptOptions extends EncodeOptions {
  /** True if the model's BOS and EOS are added where its metadata asks for them. */
  readonly addSpecial: boolean;
}

/**
 * Text to token ids and back, exactly as the model's own tokenizer; llama.cpp's differs from it where docs/tokenizers.md says.
 * Immutable; safe to share.
 */
export interface Tokenizer {
  readonly vocabularySize: number;
  readonly bosId: number | undefined;
  readonly eosId: number | undefined;
  /** Generating one of these ends a generation. */
  readonly eogIds: ReadonlySet<number>;
  /** True if prompts of this model start with BOS, end with EOS. */
  readonly addBos: boolean;
  readonly addEos: boolean;
  /** True if a text starts with a space that is not a part of it (SentencePiece). */
  readonly addSpacePrefix: boolean;
  /** True if one token may stand for a text of any length (WordPiece, Unigram: white space, and what is not a token). */
  readonly isLossy: boolean;

  /**
   * Ids of `text` alone, without BOS and EOS.
   *
   * @throws TokenizerError `INVALID_FIELD` for a lone surrogate
   */
  encode(text: string, options: EncodeOptions): Int32Array;

  /**
   * Ids of a whole prompt. With `addSpecial` and {@link addBos} it starts with exactly one BOS, also when the text (a
   * rendered chat template) already begins with one or several; likewise EOS at the end.
   *
   * @throws TokenizerError `INVALID_FIELD` for a lone surrogate
   */
  encodePrompt(text: string, options: PromptOptions): Int32Array;

  /**
   * Bytes that a token stands for, a special one by its name. Not to be written to.
   *
   * @throws TokenizerError `TOKEN_OUT_OF_RANGE`
   */
  tokenBytes(id: number): Uint8Array;

  /** Name or spelling of a token as the model file has it. @throws TokenizerError `TOKEN_OUT_OF_RANGE` */
  tokenText(id: number): string;

  /** True if the token is control or unknown: a user's words never become it. */
  isSpecial(id: number): boolean;

  /** True if the token is part of the text a client gets; some control tokens are. */
  isRendered(id: number): boolean;

  /** Names of the tokens that only a template may write. */
  markerTexts(): readonly string[];
}

/**
 * Builds the tokenizer a model file describes.
 *
 * @throws TokenizerError `TOKENIZER_UNSUPPORTED` for a kind or pre-tokenizer that is not known exactly,
 *   or a key that nothing here computes with, `TOKENIZER_INVALID` for missing or inconsistent data
 */
export function createTokenizer(metadata: GgufMetadata): Tokenizer {
  const noted = metadata.fresh();
  const tokenizer = tokenizerOf(noted);
  for (const [key, value] of noted.unasked('tokenizer.')) {
    if (isHarmlessTokenizerKey(key, value)) continue;
    throw new TokenizerError(
      'TOKENIZER_UNSUPPORTED',
      `metadata key ${quoted(key)} is ${shown(value)}, which is not understood here: without it texts may become other tokens`,
      { key },
    );
  }
  return tokenizer;
}

function tokenizerOf(metadata: GgufMetadata): Tokenizer {
  const kind = metadata.string('tokenizer.ggml.model');
  if (kind === 'llama') {
    const vocabulary = new Vocabulary(metadata, { bosId: 1, eosId: 2, unknownId: 0 });
    const addSpacePrefix = metadata.boolean('tokenizer.ggml.add_space_prefix') ?? true;
    return new ModelTokenizer(metadata, {
      vocabulary,
      model: new SentencePieceModel(vocabulary, addSpacePrefix),
      bytes: new TokenBytes(vocabulary, 'sentencepiece'),
      addSpacePrefix,
      addBosByDefault: true,
    });
  }
  if (kind === 'gpt2') {
    const vocabulary = new Vocabulary(metadata, { bosId: 11, eosId: 11 });
    const { model, addBosByDefault } = createByteLevelModel(metadata, vocabulary);
    const bytes = new TokenBytes(vocabulary, 'byte-level');
    return new ModelTokenizer(metadata, { vocabulary, model, bytes, addSpacePrefix: false, addBosByDefault });
  }
  if (kind === 'gemma4') {
    const vocabulary = new Vocabulary(metadata, { bosId: 2, eosId: 1, unknownId: 3 });
    const model = new CharacterBpeModel(metadata, vocabulary);
    const bytes = new TokenBytes(vocabulary, 'sentencepiece');
    return new ModelTokenizer(metadata, { vocabulary, model, bytes, addSpacePrefix: false, addBosByDefault: true });
  }
  if (kind === 'bert') {
    const vocabulary = new Vocabulary(metadata, { bosId: 101, eosId: 102, unknownId: 100 }, ['cls', 'seperator']);
    const model = new WordPieceModel(metadata, vocabulary);
    const bytes = new TokenBytes(vocabulary, 'sentencepiece');
    // Every text is between both, whatever a file says of BOS and EOS.
    for (const key of ['bos', 'eos', 'sep']) metadata.boolean(`tokenizer.ggml.add_${key}_token`);
    expectSame(metadata, 'bos', vocabulary.bosId);
    expectSame(metadata, 'eos', vocabulary.eosId);
    const enclosing = { addSpacePrefix: true, addBosByDefault: true, isEnclosed: true, isLossy: true };
    return new ModelTokenizer(metadata, { vocabulary, model, bytes, ...enclosing });
  }
  if (kind === 't5') {
    const vocabulary = new Vocabulary(metadata, { eosId: 1, unknownId: 2 });
    const model = new UnigramModel(metadata, vocabulary);
    const bytes = new TokenBytes(vocabulary, 'sentencepiece');
    const byDefault = { addBosByDefault: false, addEosByDefault: true };
    return new ModelTokenizer(metadata, {
      ...{ vocabulary, model, bytes, addSpacePrefix: model.addsSpace },
      ...{ ...byDefault, isLossy: true },
    });
  }
  throw new TokenizerError(
    'TOKENIZER_UNSUPPORTED',
    `tokenizer model ${kind === undefined ? 'is missing from the model file' : `${quoted(kind)} is not supported`}; supported: llama (SentencePiece), gpt2 (byte-level BPE), gemma4 (BPE over characters), bert (WordPiece), t5 (Unigram)`,
    { model: cut(kind ?? '') },
  );
}

/** A name more for an id that is known by another one. */
function expectSame(metadata: GgufMetadata, name: string, id: number | undefined): void {
  const key = `tokenizer.ggml.${name}_token_id`;
  const named = metadata.number(key);
  if (named === undefined || named === id) return;
  throw new TokenizerError('TOKENIZER_UNSUPPORTED', `metadata key "${key}" is ${named}, and texts have ${id} there`, {
    key,
  });
}

interface Parts {
  readonly vocabulary: Vocabulary;
  readonly model: TextModel;
  readonly bytes: TokenBytes;
  readonly addSpacePrefix: boolean;
  readonly addBosByDefault: boolean;
  readonly addEosByDefault?: boolean;
  /** True if every prompt is between BOS and EOS, whatever the file says. */
  readonly isEnclosed?: boolean;
  readonly isLossy?: boolean;
}

class ModelTokenizer implements Tokenizer {
  readonly vocabularySize: number;
  readonly bosId: number | undefined;
  readonly eosId: number | undefined;
  readonly eogIds: ReadonlySet<number>;
  readonly addBos: boolean;
  readonly addEos: boolean;
  readonly addSpacePrefix: boolean;
  readonly isLossy: boolean;

  private readonly vocabulary: Vocabulary;
  private readonly model: TextModel;
  private readonly bytes: TokenBytes;
  private readonly splitter: SpecialTokenSplitter;

  constructor(metadata: GgufMetadata, parts: Parts) {
    const { vocabulary } = parts;
    this.vocabulary = vocabulary;
    this.model = parts.model;
    this.bytes = parts.bytes;
    this.splitter = new SpecialTokenSplitter(vocabulary, spaceSwallowers(metadata, vocabulary));
    this.vocabularySize = vocabulary.size;
    this.bosId = vocabulary.bosId;
    this.eosId = vocabulary.eosId;
    this.eogIds = vocabulary.eogIds;
    this.addSpacePrefix = parts.addSpacePrefix;
    const wantsBos = metadata.boolean('tokenizer.ggml.add_bos_token') ?? parts.addBosByDefault;
    const wantsEos = metadata.boolean('tokenizer.ggml.add_eos_token') ?? parts.addEosByDefault ?? false;
    const { isEnclosed = false, isLossy = false } = parts;
    this.isLossy = isLossy;
    this.addBos = (wantsBos || isEnclosed) && vocabulary.bosId !== undefined;
    this.addEos = (wantsEos || isEnclosed) && vocabulary.eosId !== undefined;
  }

  encode(text: string, options: EncodeOptions): Int32Array {
    const output = new IdBuffer(text.length >> 2);
    this.encodeInto(text, options, output);
    return output.slice();
  }

  encodePrompt(text: string, options: PromptOptions): Int32Array {
    const output = new IdBuffer(text.length >> 2);
    const addBos = options.addSpecial && this.addBos;
    if (addBos) output.push(this.bosId!);
    this.encodeInto(text, options, output);
    if (options.addSpecial && this.addEos && output.at(-1) !== this.eosId) output.push(this.eosId!);
    let start = 0;
    if (addBos) while (output.at(start + 1) === this.bosId) start++;
    return output.slice(start);
  }

  tokenBytes(id: number): Uint8Array {
    this.checkId(id);
    return this.bytes.of(id);
  }

  tokenText(id: number): string {
    this.checkId(id);
    return this.vocabulary.texts[id]!;
  }

  isSpecial(id: number): boolean {
    return this.vocabulary.isSpecial(id);
  }

  isRendered(id: number): boolean {
    return this.vocabulary.isRendered(id);
  }

  markerTexts(): readonly string[] {
    return this.vocabulary.texts.filter((text, id) => text !== '' && this.vocabulary.isMarker(id));
  }

  private encodeInto(text: string, options: EncodeOptions, output: IdBuffer): void {
    checkWellFormed(text);
    let followsSpecial = true;
    for (const fragment of this.splitter.split(text, options)) {
      if ('tokenId' in fragment) {
        output.push(fragment.tokenId);
        followsSpecial = true;
      } else {
        this.model.encode(text.slice(fragment.start, fragment.end), followsSpecial, output);
        followsSpecial = false;
      }
    }
  }

  private checkId(id: number): void {
    if (!Number.isInteger(id) || id < 0 || id >= this.vocabularySize) {
      throw new TokenizerError('TOKEN_OUT_OF_RANGE', `token id ${id} is not below ${this.vocabularySize}`);
    }
  }
}

/**
 * A lone surrogate has no UTF-8 form; replacing it silently would answer another text than the one asked about.
 *
 * @throws TokenizerError `INVALID_FIELD`
 */
export function checkWellFormed(text: string, field = 'text'): void {
  const at = text.search(/\p{Surrogate}/u);
  if (at >= 0) {
    throw new TokenizerError('INVALID_FIELD', `${field} has a lone surrogate at offset ${at}; send valid Unicode`, {
      field,
    });
  }
}

/** Phi-3 was trained with white space after its markers removed; the file does not say so, its name does. */
function spaceSwallowers(metadata: GgufMetadata, vocabulary: Vocabulary): (id: number) => boolean {
  if (!/phi-?3/i.test(metadata.string('general.name') ?? '')) return () => false;
  const keepers = new Set(['<unk>', '<s>', '<|endoftext|>'].map((name) => vocabulary.idOf(name)));
  return (id) => !keepers.has(id);
}
