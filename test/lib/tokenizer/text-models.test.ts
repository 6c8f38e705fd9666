import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { detokenize } from '../../../src/lib/tokenizer/detokenizer.js';
import { typed } from '../../support/gguf-builder.js';
import { smallBpe, smallSpm, spell, tokenizerOf } from './vocabularies.js';

const plain = { parseSpecial: false };
const bpe = tokenizerOf(smallBpe());
const spm = tokenizerOf(smallSpm());
const unicode = fc.string({ unit: 'binary', maxLength: 60 });
const familiar = fc.string({
  unit: fc.constantFrom('hello', ' world', ' ', 'a', 'b', 'é', '😀', '\n', '1', '\u0301', 'שלום', '▁', '</s>', '<'),
  maxLength: 30,
});

describe('byte-level BPE', () => {
  it('applies the merges in the order of the list', () => {
    expect(spell(bpe, bpe.encode('hello world', plain))).toEqual(['hello', 'Ġworld']);
    expect(spell(bpe, bpe.encode('abab aab', plain))).toEqual(['abab', 'Ġ', 'aa', 'b']);
  });

  it('writes what no merge covers as bytes', () => {
    expect(spell(bpe, bpe.encode('é😀ñ', plain))).toEqual(['Ã©', 'ðŁĺĢ', 'Ã', '±']);
  });

  it('drops a byte that has no token, and never takes the unknown token for it', () => {
    const builder = smallBpe({
      'tokenizer.ggml.unknown_token_id': 0,
      'tokenizer.ggml.bos_token_id': undefined,
      'tokenizer.ggml.eos_token_id': undefined,
      'tokenizer.ggml.tokens': ['<|endoftext|>', 'a', 'b'],
    });
    const tokenizer = tokenizerOf(
      builder.setAll({
        'tokenizer.ggml.token_type': typed.arrayOf(typed.i32, [3, 1, 1]),
        'tokenizer.ggml.scores': undefined,
        'tokenizer.ggml.merges': ['a b'],
      }),
    );
    expect(spell(tokenizer, tokenizer.encode('aé\n\u0000b', plain))).toEqual(['a', 'b']);
  });

  it('takes a whole word that is a token as it is only where merges are ignored', () => {
    const tokens = { 'tokenizer.ggml.merges': ['h e'] };
    expect(spell(bpe, tokenizerOf(smallBpe(tokens)).encode('hello', plain))).toEqual(['he', 'l', 'l', 'o']);
    const ignoring = tokenizerOf(smallBpe({ ...tokens, 'tokenizer.ggml.pre': 'llama-bpe' }));
    expect(spell(bpe, ignoring.encode('hello', plain))).toEqual(['hello']);
  });

  it('merges through strings that are no tokens, and falls back to bytes when it ends on one', () => {
    const tokenizer = tokenizerOf(smallBpe({ 'tokenizer.ggml.merges': ['x y', 'xy z', 'o w'] }));
    expect(spell(tokenizer, tokenizer.encode('xy ow', plain))).toEqual(['x', 'y', 'Ġ', 'o', 'w']);
  });
});

describe('SentencePiece', () => {
  it('merges the best score first and starts a text with a space', () => {
    expect(spell(spm, spm.encode('hello world', plain))).toEqual(['▁hello', '▁world']);
    expect(spell(spm, spm.encode('aaaaaa', plain))).toEqual(['▁', 'aaaa', 'aa']);
  });

  it('starts no text with a space when the file says so', () => {
    const tokenizer = tokenizerOf(smallSpm({ 'tokenizer.ggml.add_space_prefix': false }));
    expect(spell(tokenizer, tokenizer.encode('hello world', plain))).toEqual(['hello', '▁world']);
  });

  it('writes a character without a token as its UTF-8 bytes', () => {
    expect(spell(spm, spm.encode('é', plain))).toEqual(['▁', '<0xC3>', '<0xA9>']);
    expect(spell(spm, spm.encode('\n', plain))).toEqual(['▁', '<0x0A>']);
  });

  it('never merges text into a control token', () => {
    expect(spell(spm, spm.encode('</s>', plain))).toEqual(['▁', '</s', '>']);
  });
});

describe.each([
  ['byte-level BPE', bpe, (text: string) => text],
  // SentencePiece writes a space as this character, so it cannot tell the two apart.
  ['SentencePiece', spm, (text: string) => text.replaceAll('▁', ' ')],
])('%s', (_name, tokenizer, normalised) => {
  it('decodes what it encoded, for any Unicode text', () => {
    fc.assert(
      fc.property(fc.oneof(unicode, familiar), (text) => {
        expect(detokenize(tokenizer, tokenizer.encode(text, plain))).toBe(normalised(text));
      }),
    );
  });

  it('never turns text into a special token', () => {
    fc.assert(
      fc.property(familiar, (text) => {
        for (const id of tokenizer.encode(text, plain)) expect(tokenizer.isSpecial(id)).toBe(false);
      }),
    );
  });

  it('gives the same ids however often it is asked', () => {
    fc.assert(
      fc.property(familiar, (text) => {
        expect(tokenizer.encode(text, plain)).toEqual(tokenizer.encode(text, plain));
      }),
    );
  });

  it('refuses a lone surrogate and names its place', () => {
    for (const text of ['ab\ud83d', '\ude00', 'a\ude00\ud83d']) {
      expect(() => tokenizer.encode(text, plain)).toThrow(
        expect.objectContaining({
          reason: 'INVALID_FIELD',
          message: expect.stringMatching(/lone surrogate at offset/),
        }),
      );
    }
  });

  it('refuses ids outside the vocabulary', () => {
    for (const id of [-1, 0.5, Number.NaN, tokenizer.vocabularySize]) {
      expect(() => tokenizer.tokenBytes(id)).toThrow(expect.objectContaining({ reason: 'TOKEN_OUT_OF_RANGE' }));
    }
  });

  it('encodes nothing as nothing', () => {
    expect(tokenizer.encode('', plain)).toHaveLength(0);
  });
});
