import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { detokenize } from '../../../src/lib/tokenizer/detokenizer.js';
import { createTokenizer, type Tokenizer } from '../../../src/lib/tokenizer/tokenizer.js';
import { packageRoot } from '../../../src/shared/package.js';
import { type BuilderValue, GgufBuilder, typed } from '../../support/gguf-builder.js';

interface WordPieces {
  readonly tokens: readonly string[];
  /** The first so many are control tokens. */
  readonly special: number;
  readonly cases: readonly {
    readonly text: string;
    readonly uncased: readonly number[];
    readonly cased: readonly number[];
    /** Ids of llama.cpp, where they are others. */
    readonly uncasedByLlamaCpp?: readonly number[];
    readonly casedByLlamaCpp?: readonly number[];
  }[];
}

/** Made by bench/peers/make-word-pieces.py and make-word-pieces.mjs. */
const fixture = JSON.parse(
  readFileSync(path.join(packageRoot, 'test', 'fixtures', 'word-pieces.json'), 'utf8'),
) as WordPieces;
const [UNK, CLS, SEP] = [1, 2, 3];

function tokenizerOf(metadata: Readonly<Record<string, BuilderValue>> = {}): Tokenizer {
  const builder = new GgufBuilder({ name: 'words.gguf' });
  builder.setAll({
    'general.architecture': 'bert',
    'tokenizer.ggml.model': 'bert',
    'tokenizer.ggml.tokens': [...fixture.tokens],
    'tokenizer.ggml.token_type': typed.arrayOf(
      typed.i32,
      fixture.tokens.map((_, id) => (id < fixture.special ? 3 : 1)),
    ),
    'tokenizer.ggml.unknown_token_id': UNK,
    'tokenizer.ggml.cls_token_id': CLS,
    'tokenizer.ggml.seperator_token_id': SEP,
    ...metadata,
  });
  return createTokenizer(builder.read().metadata);
}
const tokenizers = {
  uncased: tokenizerOf(),
  cased: tokenizerOf({ 'tokenizer.ggml.normalizer.lowercase': false }),
};
const kinds = Object.keys(tokenizers) as (keyof typeof tokenizers)[];
const encode = (tokenizer: Tokenizer, text: string) => [...tokenizer.encode(text, { parseSpecial: false })];

/** Texts that docs/tokenizers.md says llama.cpp cuts otherwise. */
const DIFFERS = {
  // Syllables and vowel signs are dropped with the marks; controls are white space; long words are cut.
  uncased: /[\uac00-\ud7a3]|\p{Mc}|[\v\f\u0085]|\S{101}/u,
  cased: /[\v\f\u0085]|\S{101}/u,
};

describe.each(kinds)('WordPiece, %s', (kind) => {
  it('gives the ids of Hugging Face’s library', () => {
    expect(fixture.cases.length).toBeGreaterThan(300);
    for (const one of fixture.cases)
      expect(encode(tokenizers[kind], one.text), JSON.stringify(one.text)).toEqual(one[kind]);
  });

  it('gives llama.cpp’s but for texts that are documented', () => {
    const differing = fixture.cases.filter((one) => one[`${kind}ByLlamaCpp`] !== undefined);
    for (const { text } of differing) expect(text).toMatch(DIFFERS[kind]);
    expect(differing.length).toBeGreaterThan(5);
    expect(fixture.cases.length - differing.length).toBeGreaterThan(200);
  });
});

describe('WordPiece', () => {
  const { uncased } = tokenizers;

  it('puts a text between [CLS] and [SEP], an empty one too', () => {
    const prompt = (text: string) => [...uncased.encodePrompt(text, { parseSpecial: false, addSpecial: true })];
    expect(prompt('')).toEqual([CLS, SEP]);
    expect(prompt('fox')).toEqual([CLS, ...encode(uncased, 'fox'), SEP]);
    expect([...uncased.encodePrompt('fox', { parseSpecial: false, addSpecial: false })]).toEqual(
      encode(uncased, 'fox'),
    );
  });

  it('takes names of control tokens for them only if asked to', () => {
    expect([...uncased.encode('[SEP] fox', { parseSpecial: true })]).toEqual([SEP, ...encode(uncased, 'fox')]);
    expect(encode(uncased, '[SEP]')).not.toContain(SEP);
  });

  it('strips accents apart from letters’ case if the file says so', () => {
    const accents = { 'tokenizer.ggml.normalizer.strip_accents': false } as const;
    expect(encode(tokenizerOf(accents), 'É')).toEqual([fixture.tokens.indexOf('▁é')]);
    const cased = { 'tokenizer.ggml.normalizer.lowercase': false, 'tokenizer.ggml.normalizer.strip_accents': true };
    expect(encode(tokenizerOf(cased), 'É')).toEqual([fixture.tokens.indexOf('▁E')]);
  });

  it('turns ids back into words', () => {
    expect(detokenize(uncased, encode(uncased, 'the playing fox'))).toBe('the playing fox');
  });

  it('refuses other tokens at the ends of a text than its names say', () => {
    expect(() => tokenizerOf({ 'tokenizer.ggml.bos_token_id': 4 })).toThrow(/"tokenizer.ggml.bos_token_id" is 4/);
    expect(() => tokenizerOf({ 'tokenizer.ggml.bos_token_id': CLS, 'tokenizer.ggml.eos_token_id': SEP })).not.toThrow();
  });
});
