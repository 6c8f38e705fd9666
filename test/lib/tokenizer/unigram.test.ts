import { readFileSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { detokenize } from '../../../src/lib/tokenizer/detokenizer.js';
import { createTokenizer, type Tokenizer } from '../../../src/lib/tokenizer/tokenizer.js';
import { packageRoot } from '../../../src/shared/package.js';
import { type BuilderValue, GgufBuilder, typed } from '../../support/gguf-builder.js';

interface Pieces {
  readonly tokens: readonly string[];
  readonly types: readonly number[];
  readonly scores: readonly number[];
}

interface Unigram extends Pieces {
  /** Base64 of `precompiled_charsmap`. */
  readonly charsmap: string;
  readonly cases: readonly {
    readonly text: string;
    /** llama.cpp's, by the way white space is treated. */
    readonly ids: Readonly<Record<string, readonly number[]>>;
    /** SentencePiece's, where they are others. */
    readonly bySentencePiece?: readonly number[];
  }[];
  readonly random: readonly (Pieces & {
    readonly prefixes: boolean;
    readonly merges: boolean;
    readonly cases: readonly { readonly text: string; readonly ids: readonly number[] }[];
  })[];
}

/** Made by bench/peers/make-unigram.py and make-unigram.mjs. */
const fixture = JSON.parse(readFileSync(path.join(packageRoot, 'test', 'fixtures', 'unigram.json'), 'utf8')) as Unigram;
const charsmap = Buffer.from(fixture.charsmap, 'base64');
const [UNKNOWN, BOS, EOS] = [0, 1, 2];

function tokenizerOf(
  { tokens, types, scores }: Pieces,
  metadata: Readonly<Record<string, BuilderValue | undefined>> = {},
): Tokenizer {
  const builder = new GgufBuilder({ name: 'pieces.gguf' });
  builder.setAll({
    'general.architecture': 'bert',
    'tokenizer.ggml.model': 't5',
    'tokenizer.ggml.pre': 'default',
    'tokenizer.ggml.tokens': [...tokens],
    'tokenizer.ggml.token_type': typed.arrayOf(typed.i32, [...types]),
    'tokenizer.ggml.scores': typed.arrayOf(typed.f32, [...scores]),
    'tokenizer.ggml.unknown_token_id': UNKNOWN,
    'tokenizer.ggml.bos_token_id': BOS,
    'tokenizer.ggml.eos_token_id': EOS,
    ...metadata,
  });
  return createTokenizer(builder.read().metadata);
}

const spaces = (prefixes: boolean, merges: boolean) => ({
  'tokenizer.ggml.add_space_prefix': prefixes,
  'tokenizer.ggml.remove_extra_whitespaces': merges,
});
const rules = (bytes: Uint8Array) => ({
  'tokenizer.ggml.precompiled_charsmap': typed.arrayOf(typed.u8, [...bytes]),
});
const usual = tokenizerOf(fixture, { ...spaces(true, true), ...rules(charsmap) });
const encode = (tokenizer: Tokenizer, text: string) => [...tokenizer.encode(text, { parseSpecial: false })];

describe('Unigram', () => {
  it.each([
    ['prefix-merged', true, true],
    ['prefix-kept', true, false],
    ['plain-merged', false, true],
    ['plain-kept', false, false],
  ] as const)('gives llama.cpp’s ids for hostile texts, white space %s', (kind, prefixes, merges) => {
    const tokenizer = tokenizerOf(fixture, { ...spaces(prefixes, merges), ...rules(charsmap) });
    const cases = fixture.cases.filter(({ ids }) => ids[kind] !== undefined);
    expect(cases.length).toBeGreaterThan(80);
    for (const { text, ids } of cases) expect(encode(tokenizer, text), JSON.stringify(text)).toEqual(ids[kind]);
  });

  it('gives SentencePiece’s but for texts that are documented', () => {
    const differing = fixture.cases.filter(({ bySentencePiece }) => bySentencePiece !== undefined);
    // User-defined tokens are found before the text is normalized; marks that are written out are not white space.
    for (const { text } of differing) expect(text).toMatch(/^(a )?\[user\]|▁ ?$/u);
    expect(differing.length).toBeGreaterThan(3);
    expect(fixture.cases.length - differing.length).toBeGreaterThan(300);
  });

  it.each(fixture.random.map((one, i) => [i, one] as const))(
    'gives llama.cpp’s ids by random vocabulary %s',
    (_, one) => {
      const tokenizer = tokenizerOf(one, spaces(one.prefixes, one.merges));
      for (const { text, ids } of one.cases) expect(encode(tokenizer, text), JSON.stringify(text)).toEqual(ids);
    },
  );

  it('normalizes characters that begin with the bytes of a user-defined token', () => {
    const pieces = {
      tokens: [...fixture.tokens, '▁[word]', 'é!'],
      types: [...fixture.types, 4, 4],
      scores: [...fixture.scores, 0, 0],
    };
    const tokenizer = tokenizerOf(pieces, { ...spaces(true, true), ...rules(charsmap) });
    for (const text of ['①', '…', 'a\u2028b', 'É', 'Ⅷ', '\u3000x'])
      expect(encode(tokenizer, text)).toEqual(encode(usual, text));
    expect(encode(tokenizer, 'a▁[word]b')).toContain(fixture.tokens.length);
  });

  it('puts a text between BOS and EOS as the file says, by default before EOS alone', () => {
    const prompt = (tokenizer: Tokenizer, text: string) => [
      ...tokenizer.encodePrompt(text, { parseSpecial: false, addSpecial: true }),
    ];
    expect(prompt(usual, 'the')).toEqual([...encode(usual, 'the'), EOS]);
    const both = tokenizerOf(fixture, {
      ...{ ...spaces(true, true), ...rules(charsmap) },
      ...{ 'tokenizer.ggml.add_bos_token': true, 'tokenizer.ggml.add_eos_token': true },
    });
    expect(prompt(both, 'the')).toEqual([BOS, ...encode(usual, 'the'), EOS]);
    expect(prompt(both, '')).toEqual([BOS, EOS]);
    expect([...both.encode('</s> the', { parseSpecial: true })]).toEqual([EOS, ...encode(usual, 'the')]);
    expect(encode(both, '</s>')).not.toContain(EOS);
  });

  it('turns ids back into text', () => {
    expect(detokenize(usual, encode(usual, 'the quick fox'))).toBe('the quick fox');
  });

  it('encodes long texts in proportion, whether or not tokens cross words', () => {
    const crossing = fixture.random.find(({ tokens }) => tokens.some((token) => /[^▁]▁/u.test(token)))!;
    const tokenizers = [usual, tokenizerOf(crossing, spaces(true, true))];
    for (const tokenizer of tokenizers) {
      const lengths = [20_000, 40_000, 60_000].map((times) => encode(tokenizer, 'xab '.repeat(times)).length);
      const [one, two, three] = lengths as [number, number, number];
      expect(two - one).toBe(three - two);
      expect(encode(tokenizer, 'x'.repeat(500_000)).length).toBeGreaterThan(0);
    }
  });

  it('refuses a damaged list of replacements, and never fails at a text by one that it took', () => {
    const open = (bytes: Uint8Array) => tokenizerOf(fixture, { ...spaces(true, true), ...rules(bytes) });
    const damaged: readonly (readonly [Uint8Array, RegExp])[] = [
      [Uint8Array.of(1, 2, 3), /has a trie of 0 bytes in 3/],
      [charsmap.subarray(0, 400), /has a trie of \d+ bytes in 400/],
      [charsmap.subarray(0, -1), /replacement without an end|not UTF-8/],
      [Buffer.concat([charsmap, Buffer.of(0xff, 0)]), /not UTF-8/],
    ];
    for (const [bytes, problem] of damaged) expect(() => open(bytes)).toThrow(problem);
    let refused = 0;
    fc.assert(
      fc.property(fc.nat(charsmap.length - 1), fc.nat(255), fc.string({ unit: 'binary' }), (at, byte, text) => {
        const bytes = Uint8Array.from(charsmap);
        bytes[at] = byte;
        try {
          encode(open(bytes), text);
        } catch (error) {
          expect(error).toMatchObject({ reason: 'TOKENIZER_INVALID' });
          refused += 1;
        }
      }),
      { numRuns: 60 },
    );
    expect(refused).toBeGreaterThan(0);
  });

  it('refuses a vocabulary without scores, or without an unknown token', () => {
    expect(() => tokenizerOf(fixture, { 'tokenizer.ggml.scores': undefined })).toThrow(/no "tokenizer.ggml.scores"/);
    const infinite = fixture.scores.map((score, id) => (id === 20 ? Number.NEGATIVE_INFINITY : score));
    expect(() => tokenizerOf({ ...fixture, scores: infinite })).toThrow(/infinite for token 20/);
    const two = { tokens: ['a', 'b'], types: [1, 1], scores: [-1, -2] };
    const none = { 'tokenizer.ggml.unknown_token_id': undefined, 'tokenizer.ggml.eos_token_id': undefined };
    expect(() => tokenizerOf(two, { ...none, 'tokenizer.ggml.bos_token_id': undefined })).toThrow(/no unknown token/);
  });
});
