import { FileByteSource } from '../../../src/lib/gguf/byte-source.js';
import type { GgufMetadata } from '../../../src/lib/gguf/metadata.js';
import { readGguf } from '../../../src/lib/gguf/reader.js';
import { characterOfByte } from '../../../src/lib/tokenizer/byte-alphabet.js';
import { createTokenizer, type Tokenizer } from '../../../src/lib/tokenizer/tokenizer.js';
import { TokenType } from '../../../src/lib/tokenizer/vocabulary.js';
import { type BuilderValue, GgufBuilder, typed } from '../../support/gguf-builder.js';

export type Overrides = Readonly<Record<string, BuilderValue | undefined>>;

interface Piece {
  readonly text: string;
  readonly type?: number;
  readonly score?: number;
}

const control = (text: string): Piece => ({ text, type: TokenType.control });
const userDefined = (text: string): Piece => ({ text, type: TokenType.userDefined });

const MERGES = [
  ...[
    'h e',
    'l l',
    'he ll',
    'hell o',
    'Ġ w',
    'o r',
    'Ġw or',
    'l d',
    'Ġwor ld',
    'Ġ hello',
    'a a',
    'aa aa',
    'a b',
    'ab ab',
  ],
  ...['Ġ Ġ', 'ĠĠ ĠĠ', 'Ċ Ċ', 'Ã ©', 'ð Ł', 'ðŁ ĺ', 'ðŁĺ Ģ', '1 2', '12 3'],
];

/** Named tokens of {@link smallBpe}. */
export const BPE_MARKERS = ['<|endoftext|>', '<|im_start|>', '<|im_end|>'] as const;

/** A byte-level vocabulary of 256 bytes, a few merges, three control tokens and the user-defined `<think>`. */
export function smallBpe(overrides: Overrides = {}): GgufBuilder {
  const merged = MERGES.map((merge) => merge.replace(' ', ''));
  return build(
    [
      ...Array.from({ length: 256 }, (_, byte) => ({ text: characterOfByte(byte) })),
      ...merged.map((text) => ({ text })),
      ...BPE_MARKERS.map(control),
      userDefined('<think>'),
    ],
    {
      'tokenizer.ggml.model': 'gpt2',
      'tokenizer.ggml.pre': 'qwen2',
      'tokenizer.ggml.merges': MERGES,
      'tokenizer.ggml.bos_token_id': 256 + merged.length,
      'tokenizer.ggml.eos_token_id': 256 + merged.length + 2,
      ...overrides,
    },
  );
}

/** A SentencePiece vocabulary: `<unk> <s> </s>`, 256 bytes, some pieces with falling scores, two chat markers. */
export function smallSpm(overrides: Overrides = {}): GgufBuilder {
  const letters = [...'▁helowrdas/<>123'];
  const merged = [
    'he',
    'll',
    'hell',
    'hello',
    '▁hello',
    '▁w',
    'or',
    '▁wor',
    'ld',
    '▁world',
    '▁▁',
    '▁▁▁▁',
    '</',
    '</s',
    'aa',
    'aaaa',
  ];
  return build(
    [
      { text: '<unk>', type: TokenType.unknown },
      control('<s>'),
      control('</s>'),
      ...Array.from({ length: 256 }, (_, byte) => ({
        text: `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`,
        type: TokenType.byte,
      })),
      ...merged.map((text, i) => ({ text, score: -i - 1 })),
      ...letters.map((text, i) => ({ text, score: -100 - i })),
      control('<|im_start|>'),
      control('<|im_end|>'),
    ],
    { 'tokenizer.ggml.model': 'llama', ...overrides },
  );
}

const GEMMA_MERGES = [
  ...['h e', 'l l', 'he ll', 'hell o', '▁ hello', '▁ w', 'o r', '▁w or', 'l d', '▁wor ld', '▁ ▁', '▁▁ ▁▁'],
  ...['a a', 'aa aa', '\n \n', '\n\n \n', 's h', 'ש ל', 'é é'],
];

/** Gemma 4's kind of vocabulary: named tokens, 256 bytes, characters, and merges of them in a list. */
export function smallGemma(overrides: Overrides = {}): GgufBuilder {
  const characters = [...'▁helowrdsab123éשל\n<>|"'];
  const merged = GEMMA_MERGES.map((merge) => merge.replace(/(?<=.) /su, ''));
  return build(
    [
      ...['<pad>', '<eos>', '<bos>'].map(control),
      { text: '<unk>', type: TokenType.unknown },
      ...Array.from({ length: 256 }, (_, byte) => ({
        text: `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`,
        type: TokenType.byte,
      })),
      ...[...characters, ...merged, '\n\n\n\n\n'].map((text) => ({ text })),
      ...['<|turn>', '<turn|>'].map(control),
      ...['<|channel>', '<channel|>', '<|tool_call>', '<tool_call|>', '<|"|>'].map(userDefined),
    ],
    {
      'tokenizer.ggml.model': 'gemma4',
      'tokenizer.ggml.merges': GEMMA_MERGES,
      'tokenizer.ggml.bos_token_id': 2,
      'tokenizer.ggml.eos_token_id': 1,
      'tokenizer.ggml.unknown_token_id': 3,
      'tokenizer.ggml.padding_token_id': 0,
      'tokenizer.ggml.add_space_prefix': false,
      'tokenizer.ggml.add_bos_token': true,
      ...overrides,
    },
  );
}

export function tokenizerOf(builder: GgufBuilder): Tokenizer {
  return createTokenizer(builder.read().metadata);
}

export function metadataOfFile(path: string): GgufMetadata {
  const source = new FileByteSource(path);
  return readGguf(source).metadata;
}

/** Spellings of the ids, to read in an assertion. */
export function spell(tokenizer: Tokenizer, ids: Iterable<number>): string[] {
  return Array.from(ids, (id) => tokenizer.tokenText(id));
}

function build(pieces: readonly Piece[], values: Overrides): GgufBuilder {
  return new GgufBuilder({ name: 'vocabulary.gguf' }).setAll({
    'tokenizer.ggml.tokens': pieces.map(({ text }) => text),
    'tokenizer.ggml.token_type': typed.arrayOf(
      typed.i32,
      pieces.map(({ type }) => type ?? TokenType.normal),
    ),
    'tokenizer.ggml.scores': typed.arrayOf(
      typed.f32,
      pieces.map(({ score }) => score ?? 0),
    ),
    ...values,
  });
}
