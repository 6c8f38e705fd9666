import { describe, expect, it } from 'vitest';
import { typed } from '../../support/gguf-builder.js';
import { type Overrides, smallBpe, smallSpm, tokenizerOf } from './vocabularies.js';

const failure = (reason: string, message: RegExp) =>
  expect.objectContaining({ reason, message: expect.stringMatching(message) });

describe('a vocabulary that is not known exactly', () => {
  it.each<[string, Overrides, RegExp]>([
    [
      'an unknown pre-tokenizer',
      { 'tokenizer.ggml.pre': 'gpt-9' },
      /"gpt-9" is not supported; supported: .*llama-bpe.*qwen2/,
    ],
    [
      'no pre-tokenizer',
      { 'tokenizer.ggml.pre': undefined },
      /has no "tokenizer.ggml.pre", which says how text is cut; convert/,
    ],
    ['another kind', { 'tokenizer.ggml.model': 'bert' }, /"bert" is not supported; supported: llama .* gpt2/],
    ['no kind', { 'tokenizer.ggml.model': undefined }, /is missing/],
  ])('is refused by name: %s', (_name, overrides, message) => {
    expect(() => tokenizerOf(smallBpe(overrides))).toThrow(failure('TOKENIZER_UNSUPPORTED', message));
  });

  it.each<[string, Overrides, RegExp]>([
    ['no tokens', { 'tokenizer.ggml.tokens': undefined }, /no "tokenizer.ggml.tokens"/],
    ['no merges', { 'tokenizer.ggml.merges': undefined }, /no "tokenizer.ggml.merges"/],
    ['a merge of one symbol', { 'tokenizer.ggml.merges': ['ab'] }, /merge 0 \("ab"\)/],
    ['too few types', { 'tokenizer.ggml.token_type': typed.arrayOf(typed.i32, [1]) }, /has 1 entries for/],
  ])('is refused as broken: %s', (_name, overrides, message) => {
    expect(() => tokenizerOf(smallBpe(overrides))).toThrow(failure('TOKENIZER_INVALID', message));
  });

  it('ignores special ids outside of the vocabulary', () => {
    const tokenizer = tokenizerOf(smallSpm({ 'tokenizer.ggml.bos_token_id': 99_999 }));
    expect(tokenizer.bosId).toBe(1);
  });
});
