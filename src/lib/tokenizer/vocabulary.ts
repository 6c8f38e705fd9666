import type { GgufMetadata } from '../gguf/metadata.js';
import { TokenizerError } from './error.js';

/** The token types of `tokenizer.ggml.token_type`. */
export const TokenType = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 } as const;

/** Names that end a turn or a text, as llama.cpp knows them. */
const END_OF_GENERATION_NAMES: ReadonlySet<string> = new Set([
  '<|eot_id|>',
  '<|im_end|>',
  '<|end|>',
  '<|return|>',
  '<|call|>',
  '<|flush|>',
  '<|calls|>',
  '<end_of_turn>',
  '<|endoftext|>',
  '</s>',
  '<|eom_id|>',
  '<EOT>',
  '_<EOT>',
  '[EOT]',
  '[EOS]',
  '<|end_of_text|>',
  '<end_of_utterance>',
  '<eos>',
  '<turn|>',
  '<|tool_response>',
  '<｜end▁of▁sentence｜>',
  '[e~[',
]);

/** Padding and repository separators of code models: generating one means that the completion is over. */
const FILL_IN_THE_MIDDLE_ENDS: readonly (readonly [key: string, names: readonly string[]])[] = [
  ['tokenizer.ggml.fim_pad_token_id', ['<|fim_pad|>', '<fim-pad>', '<fim_pad>', '<PAD>', '[PAD]']],
  ['tokenizer.ggml.fim_rep_token_id', ['<|fim_repo|>', '<|repo_name|>', '<fim-repo>', '<REPO>', '<reponame>']],
  ['tokenizer.ggml.fim_sep_token_id', ['<|file_sep|>']],
];

const FILL_IN_THE_MIDDLE_MARKERS: readonly string[] = [
  ...['<|fim_prefix|>', '<fim-prefix>', '<fim_prefix>', '<｜fim▁begin｜>', '<PRE>', '▁<PRE>', '<|code_prefix|>'],
  ...['<|fim_suffix|>', '<fim-suffix>', '<fim_suffix>', '<｜fim▁hole｜>', '<SUF>', '▁<SUF>', '<|code_suffix|>'],
  ...['<|fim_middle|>', '<fim-middle>', '<fim_middle>', '<｜fim▁end｜>', '<MID>', '▁<MID>', '<|code_middle|>'],
];

/** gpt-oss writes its channels with these: control tokens on the way in, part of the text a client gets on the way out. */
const HARMONY_VISIBLE_NAMES: readonly string[] = ['<|channel|>', '<|message|>', '<|start|>', '<|constrain|>'];

/** "No such token", as a signed number and as converters write it into an unsigned one. */
const NO_TOKEN: readonly number[] = [-1, 2 ** 32 - 1];

/** Published tokens have 256 at most. */
export const MOST_TOKEN_CHARACTERS = 4096;
/** Published vocabularies have 4 Mi at most. */
const MOST_VOCABULARY_CHARACTERS = 16 << 20;

/** The tokens of a model file: their texts, types and scores, and the ids that mean something. */
export class Vocabulary {
  /** Token texts as the file spells them: byte-encoded for BPE, with `▁` for SentencePiece. */
  readonly texts: readonly string[];
  /** {@link TokenType} of each id, after the corrections that llama.cpp makes. */
  readonly types: Uint8Array;
  /** SentencePiece scores; zeros where the file has none. */
  readonly scores: Float32Array;
  readonly bosId: number | undefined;
  readonly eosId: number | undefined;
  readonly unknownId: number | undefined;
  /** Ids after which a generation is over. */
  readonly eogIds: ReadonlySet<number>;

  private readonly idByText = new Map<string, number>();
  private readonly visibleIds = new Set<number>();

  /**
   * @param defaults ids used when the file names none
   * @param ends names of the keys of the ids at the beginning and at the end of a prompt
   * @throws TokenizerError `TOKENIZER_INVALID` when the list of tokens is missing or inconsistent, or longer than any model's
   */
  constructor(
    metadata: GgufMetadata,
    defaults: { readonly bosId?: number; readonly eosId?: number; readonly unknownId?: number },
    [first, last]: readonly [first: string, last: string] = ['bos', 'eos'],
  ) {
    const texts = metadata.strings('tokenizer.ggml.tokens');
    if (texts === undefined || texts.length === 0) {
      throw new TokenizerError('TOKENIZER_INVALID', 'the model file has no "tokenizer.ggml.tokens"');
    }
    checkLengths(texts);
    this.texts = texts;
    this.types = typesOf(column(metadata, 'tokenizer.ggml.token_type', texts.length, TokenType.normal));
    this.scores = scoresOf(column(metadata, 'tokenizer.ggml.scores', texts.length, 0));
    for (let id = 0; id < texts.length; id++) {
      const text = texts[id]!;
      if (text !== '' && !this.idByText.has(text)) this.idByText.set(text, id);
    }
    this.bosId = this.idFromMetadata(metadata, `tokenizer.ggml.${first}_token_id`, defaults.bosId);
    this.eosId = this.idFromMetadata(metadata, `tokenizer.ggml.${last}_token_id`, defaults.eosId);
    this.unknownId = this.idFromMetadata(metadata, 'tokenizer.ggml.unknown_token_id', defaults.unknownId);
    this.eogIds = this.endOfGeneration(metadata);
  }

  get size(): number {
    return this.texts.length;
  }

  /** Id of the token spelled exactly so, whatever its type. */
  idOf(text: string): number | undefined {
    return this.idByText.get(text);
  }

  /** True if ordinary text may become this token: not control, unknown or byte tokens. */
  isPlain(id: number): boolean {
    const type = this.types[id];
    return type === TokenType.normal || type === TokenType.userDefined || type === TokenType.unused || type === 0;
  }

  /** True if the token is control or unknown: never produced from a user's words. */
  isSpecial(id: number): boolean {
    const type = this.types[id];
    return type === TokenType.control || type === TokenType.unknown;
  }

  /** True if the token is part of the text a client gets. */
  isRendered(id: number): boolean {
    return !this.isSpecial(id) || this.visibleIds.has(id);
  }

  /**
   * True if the token's name is a template's to write: special tokens, and user-defined ones spelled like them, because
   * some conversions type the markers of a chat so.
   */
  isMarker(id: number): boolean {
    return (
      this.isSpecial(id) ||
      (this.types[id] === TokenType.userDefined && /^<[|｜].*>$|^<.*[|｜]>$/su.test(this.texts[id]!))
    );
  }

  /** @throws TokenizerError `TOKENIZER_INVALID` for what is no id of this vocabulary */
  private idFromMetadata(metadata: GgufMetadata, key: string, fallback: number | undefined): number | undefined {
    const id = metadata.number(key);
    if (id !== undefined && !NO_TOKEN.includes(id)) {
      if (Number.isInteger(id) && id >= 0 && id < this.texts.length) return id;
      invalid(key, `is ${id}, which is none of the ${this.texts.length} tokens`);
    }
    return fallback !== undefined && fallback < this.texts.length ? fallback : undefined;
  }

  /** Collects the ids that end a generation as llama.cpp does, correcting the types of the tokens it finds. */
  private endOfGeneration(metadata: GgufMetadata): ReadonlySet<number> {
    const ids = new Set<number>();
    for (const name of FILL_IN_THE_MIDDLE_MARKERS) this.markControl(name);
    for (const [key, names] of FILL_IN_THE_MIDDLE_ENDS) {
      const id = this.idFromMetadata(metadata, key, undefined) ?? firstDefined(names, (name) => this.markControl(name));
      if (id !== undefined) ids.add(id);
    }
    for (const name of END_OF_GENERATION_NAMES) {
      const id = this.markControl(name);
      if (id !== undefined) ids.add(id);
    }
    for (const name of HARMONY_VISIBLE_NAMES) this.show(name);
    for (const key of ['eot', 'eom']) {
      const id = this.idFromMetadata(metadata, `tokenizer.ggml.${key}_token_id`, undefined);
      if (id !== undefined) ids.add(id);
    }
    if (this.eosId !== undefined) ids.add(this.eosId);

    // In gpt-oss and solar-open `<|end|>` closes a channel, not the answer; in gemma4 `</s>` is an HTML tag.
    const has = (name: string) => ids.has(this.idOf(name) ?? -1);
    if (has('<|end|>') && ((has('<|return|>') && has('<|call|>')) || (has('<|calls|>') && has('<|flush|>')))) {
      ids.delete(this.show('<|end|>')!);
    }
    if (has('<|tool_response>') && has('</s>')) ids.delete(this.setType('</s>', TokenType.normal)!);
    return ids;
  }

  /**
   * Some conversions type `<|im_end|>` and the like as ordinary text, so llama.cpp overrides the type of every name it
   * knows. An ordinary token of another form is left alone: in Qwen 2 `</s>` is HTML, and no reason to stop.
   */
  private markControl(name: string): number | undefined {
    const id = this.idByText.get(name);
    const isOrdinary = id !== undefined && this.types[id] === TokenType.normal;
    if (isOrdinary && !/^<([|｜]|end_of_)/u.test(name)) return undefined;
    return this.setType(name, TokenType.control);
  }

  /** A control token that is rendered. */
  private show(name: string): number | undefined {
    const id = this.markControl(name);
    if (id !== undefined) this.visibleIds.add(id);
    return id;
  }

  private setType(name: string, type: number): number | undefined {
    const id = this.idByText.get(name);
    if (id !== undefined) this.types[id] = type;
    return id;
  }
}

/** Structures made from tokens grow with their characters, and merges with a token's square. */
function checkLengths(texts: readonly string[]): void {
  const key = 'tokenizer.ggml.tokens';
  let characters = 0;
  texts.forEach(({ length }, id) => {
    characters += length;
    if (length > MOST_TOKEN_CHARACTERS) {
      invalid(key, `has ${length} characters in token ${id}; at most ${MOST_TOKEN_CHARACTERS} are read`);
    }
  });
  if (characters > MOST_VOCABULARY_CHARACTERS) {
    invalid(key, `has ${characters} characters in all; at most ${MOST_VOCABULARY_CHARACTERS} are read`);
  }
}

/** The types of all tokens; a number that is none of {@link TokenType} is damage, or of a kind that is not known here. */
function typesOf(values: ArrayLike<number>): Uint8Array {
  for (let id = 0; id < values.length; id++) {
    const type = values[id] as number;
    if (Number.isInteger(type) && type >= 0 && type <= TokenType.byte) continue;
    invalid('tokenizer.ggml.token_type', `is ${type} for token ${id}; types are 0 to ${TokenType.byte}`);
  }
  return Uint8Array.from(values);
}

/** The scores of all tokens; what is not a number has no place in their order. */
function scoresOf(values: ArrayLike<number>): Float32Array {
  for (let id = 0; id < values.length; id++) {
    if (Number.isNaN(values[id])) invalid('tokenizer.ggml.scores', `is NaN for token ${id}`);
  }
  return Float32Array.from(values);
}

function invalid(key: string, problem: string): never {
  throw new TokenizerError('TOKENIZER_INVALID', `metadata key "${key}" ${problem}`, { key });
}

function column(metadata: GgufMetadata, key: string, length: number, fallback: number): ArrayLike<number> {
  const values = metadata.numbers(key);
  if (values === undefined) return new Float32Array(length).fill(fallback);
  if (values.length < length) {
    invalid(key, `has ${values.length} entries for ${length} tokens`);
  }
  return values.length === length ? values : Array.prototype.slice.call(values, 0, length);
}

function firstDefined<T, R>(values: readonly T[], map: (value: T) => R | undefined): R | undefined {
  for (const value of values) {
    const result = map(value);
    if (result !== undefined) return result;
  }
  return undefined;
}
