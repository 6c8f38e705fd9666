import { readFileSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { detokenize } from '../../../src/lib/tokenizer/detokenizer.js';
import { packageRoot } from '../../../src/shared/package.js';
import { smallGemma, spell, tokenizerOf } from './vocabularies.js';

interface Case {
  readonly text: string;
  readonly plain: readonly number[];
  readonly special: readonly number[];
}

const tokenizer = tokenizerOf(smallGemma());
const plain = { parseSpecial: false };
const file = path.join(packageRoot, 'test', 'fixtures', 'gemma-tokens.json');
const { cases } = JSON.parse(readFileSync(file, 'utf8')) as { cases: readonly Case[] };

describe('BPE over characters', () => {
  it.each(cases)('has llama.cpp’s tokens of $text', ({ text, plain: ids, special }) => {
    expect([...tokenizer.encode(text, plain)]).toEqual(ids);
    expect([...tokenizer.encode(text, { parseSpecial: true })]).toEqual(special);
  });

  it('encodes a text cut at spaces as it encodes the whole line', () => {
    // A merge across the start of a word switches the cutting off; here it applies to nothing.
    const merges = [...(smallGemma().read().metadata.strings('tokenizer.ggml.merges') ?? []), 'd ▁'];
    const tokens = [...(smallGemma().read().metadata.strings('tokenizer.ggml.tokens') ?? []), 'd▁'];
    const whole = tokenizerOf(
      smallGemma({
        'tokenizer.ggml.merges': merges,
        'tokenizer.ggml.tokens': tokens,
        'tokenizer.ggml.token_type': undefined,
        'tokenizer.ggml.scores': undefined,
      }),
    );
    const text = fc.string({
      unit: fc.constantFrom('hello', ' ', '  ', 'w', 'or', 'ld!', '\n', 'a', '▁', '😀'),
      maxLength: 30,
    });
    fc.assert(
      fc.property(text, (words) => {
        const unmerged = words.replaceAll(/d(?=[ ▁])/g, 'e');
        expect(spell(whole, whole.encode(unmerged, plain))).toEqual(
          spell(tokenizer, tokenizer.encode(unmerged, plain)),
        );
      }),
    );
  });

  it('gives every text back that has no marks of spaces', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 60 }), (text) => {
        fc.pre(!text.includes('▁'));
        expect(detokenize(tokenizer, tokenizer.encode(text, plain))).toBe(text);
      }),
    );
  });

  it('starts a prompt with BOS once', () => {
    const options = { parseSpecial: true, addSpecial: true };
    expect([...tokenizer.encodePrompt('<bos>a', options)]).toEqual([...tokenizer.encodePrompt('a', options)]);
  });

  it.each([
    ['no list of merges', undefined, 'the model file has no "tokenizer.ggml.merges"'],
    ['a merge of what is not a token', ['x y'], 'merge 0 ("x y") has to do with "x", which is not a token'],
    ['a merge into what is not a token', ['a b'], 'merge 0 ("a b") has to do with "ab", which is not a token'],
  ])('refuses %s', (_, merges, message) => {
    expect(() => tokenizerOf(smallGemma({ 'tokenizer.ggml.merges': merges }))).toThrow(message);
  });
});
