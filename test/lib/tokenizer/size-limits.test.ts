import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { GgufError } from '../../../src/lib/gguf/error.js';
import { TokenizerError } from '../../../src/lib/tokenizer/error.js';
import { TokenType } from '../../../src/lib/tokenizer/vocabulary.js';
import { RocmForgeError } from '../../../src/shared/errors.js';
import { typed } from '../../support/gguf-builder.js';
import { runs, seed } from '../../support/run-size.js';
import { type Overrides, smallBpe, smallSpm, tokenizerOf } from './vocabularies.js';

const MI = 1 << 20;
/** The longest that a message about a model file may be, beside the names that are supported. */
const MOST_MESSAGE = 1024;

/** Why a vocabulary is refused. */
function refusal(make: () => unknown): GgufError | TokenizerError {
  try {
    make();
  } catch (error) {
    if (error instanceof GgufError || error instanceof TokenizerError) return error;
    throw error;
  }
  throw new Error('it was accepted');
}

describe.each([
  ['SentencePiece', smallSpm],
  ['byte-level', smallBpe],
])('a %s vocabulary is refused by name', (_kind, build) => {
  const withTokens = (tokens: readonly string[], more: Overrides = {}): GgufError | TokenizerError =>
    refusal(() =>
      tokenizerOf(
        build({
          'tokenizer.ggml.tokens': [...'abcdefgh', ...tokens],
          'tokenizer.ggml.token_type': undefined,
          'tokenizer.ggml.scores': undefined,
          'tokenizer.ggml.bos_token_id': 0,
          'tokenizer.ggml.eos_token_id': 1,
          ...more,
        }),
      ),
    );

  it('with tokens of 20 KB', () => {
    const { reason, message } = withTokens(Array.from({ length: 4 }, (_, i) => `${i}`.repeat(20_000)));
    expect([reason, message]).toEqual([
      'TOKENIZER_INVALID',
      'metadata key "tokenizer.ggml.tokens" has 20000 characters in token 8; at most 4096 are read',
    ]);
  });

  it('with more characters in all than any has', () => {
    const tokens = Array.from({ length: 4097 }, (_, i) => `${i}`.padEnd(4096, 'x'));
    expect(withTokens(tokens).message).toMatch(/has \d+ characters in all; at most 16777216 are read/);
  });
});

it('a SentencePiece vocabulary whose cuts are too many to compare is refused, however few its characters', () => {
  const tokens = Array.from({ length: 20 }, (_, i) => `${i}`.padEnd(4000, 'x'));
  const none = { 'tokenizer.ggml.token_type': undefined, 'tokenizer.ggml.scores': undefined };
  const { message } = refusal(() =>
    tokenizerOf(smallSpm({ 'tokenizer.ggml.tokens': ['<unk>', ...'ab', ...tokens], ...none })),
  );
  expect(message).toMatch(/has tokens whose cuts have 320\d+ characters; at most 268435456 are compared/);
});

describe('merges are refused by name', () => {
  const withMerges = (merges: readonly string[]) =>
    refusal(() => tokenizerOf(smallBpe({ 'tokenizer.ggml.merges': merges })));

  it('above a million, all equal', () => {
    expect(withMerges(Array<string>(MI + 1).fill('a b')).message).toBe(
      'metadata key "tokenizer.ggml.merges" has 1048577 merges; at most 1048576 are read',
    );
  });

  it.each([
    ['of two symbols', `${'x'.repeat(4 * MI)} y`],
    ['of none', 'x'.repeat(8 * MI)],
  ])('one of several MiB, %s', (_what, merge) => {
    expect(withMerges(['a b', merge]).message).toMatch(/has \d+ characters in merge 1; at most 8193 are read/);
  });

  it('above 32 Mi characters in all', () => {
    const merge = `${'x'.repeat(4000)} ${'y'.repeat(4000)}`;
    expect(withMerges(Array<string>(4200).fill(merge)).message).toMatch(/has 33\d{6} characters in all/);
  });
});

it('names of special tokens are bounded: each of their characters is a node of a trie', () => {
  const names = Array.from({ length: 300 }, (_, i) => `<${i}`.padEnd(4000, '>'));
  const vocabulary = smallBpe({
    'tokenizer.ggml.tokens': names,
    'tokenizer.ggml.token_type': typed.arrayOf(
      typed.i32,
      names.map(() => TokenType.control),
    ),
    'tokenizer.ggml.scores': undefined,
    'tokenizer.ggml.merges': [],
    'tokenizer.ggml.bos_token_id': 0,
    'tokenizer.ggml.eos_token_id': 1,
  });
  expect(refusal(() => tokenizerOf(vocabulary)).message).toContain(
    'has more than 1048576 characters in special and user-defined tokens',
  );
});

it('no message or metadata of an error holds more of a value than its beginning', () => {
  const keys = [
    'tokenizer.ggml.pre',
    'tokenizer.ggml.model',
    'tokenizer.ggml.merges',
    'tokenizer.ggml.unheard_of',
  ] as const;
  const long = fc
    .tuple(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }), fc.integer({ min: 1, max: 4000 }))
    .map(([text, times]) => text.repeat(times));
  fc.assert(
    fc.property(fc.constantFrom(...keys), long, (key, value) => {
      const given = key === 'tokenizer.ggml.merges' ? [value] : value;
      const { message, metadata } = refusal(() => tokenizerOf(smallBpe({ [key]: given })));
      expect(message.length).toBeLessThan(MOST_MESSAGE);
      for (const told of Object.values(metadata)) expect(told.length).toBeLessThan(MOST_MESSAGE);
    }),
    { numRuns: runs(200), seed: seed(41) },
  );
});

it('a message that quotes a value whole all the same is cut', () => {
  expect(new RocmForgeError('INTERNAL', 'x'.repeat(50 * MI)).message).toHaveLength(8193);
});
