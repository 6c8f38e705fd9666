import { describe, expect, it } from 'vitest';
import { type BuilderValue, typed } from '../../support/gguf-builder.js';
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
    ['another kind', { 'tokenizer.ggml.model': 'rwkv' }, /"rwkv" is not supported; supported: llama .* gpt2/],
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

  it.each<[string, Overrides, RegExp]>([
    [
      'a merge of nothing that there is',
      { 'tokenizer.ggml.merges': ['a b', 'qqqq zzzz'] },
      /merge 1 \("qqqq zzzz"\) joins "qqqq", which is not a token and which no merge makes/,
    ],
    ['a merge without a right side', { 'tokenizer.ggml.merges': ['ab '] }, /merge 0 \("ab "\)/],
    [
      'a BOS that is not a token',
      { 'tokenizer.ggml.bos_token_id': 99_999 },
      /bos_token_id" is 99999, which is none of/,
    ],
    ['an EOS that is not a token', { 'tokenizer.ggml.eos_token_id': 99_999 }, /eos_token_id" is 99999/],
    ['an EOS between two tokens', { 'tokenizer.ggml.eos_token_id': typed.f32(5.5) }, /eos_token_id" is 5.5/],
    ['an end of turn that is not a token', { 'tokenizer.ggml.eot_token_id': 99_999 }, /eot_token_id" is 99999/],
    [
      'padding of code that is not a token',
      { 'tokenizer.ggml.fim_pad_token_id': 99_999 },
      /fim_pad_token_id" is 99999/,
    ],
  ])('is refused as damaged: %s', (_name, overrides, message) => {
    expect(() => tokenizerOf(smallBpe(overrides))).toThrow(failure('TOKENIZER_INVALID', message));
  });

  it.each([259, 257, 7, -3])('is refused for a token of the type %i, which would wrap to another', (type) => {
    const types = Array.from({ length: 400 }, (_, id) => (id === 258 ? type : 1));
    const overrides = { 'tokenizer.ggml.token_type': typed.arrayOf(typed.i32, types) };
    const message = new RegExp(`"tokenizer.ggml.token_type" is ${type} for token 258; types are 0 to 6`);
    expect(() => tokenizerOf(smallBpe(overrides))).toThrow(failure('TOKENIZER_INVALID', message));
  });

  it('is refused for a score that is not a number', () => {
    const scores = typed.arrayOf(
      typed.f32,
      Array.from({ length: 400 }, (_, id) => (id === 7 ? Number.NaN : -id)),
    );
    const broken = () => tokenizerOf(smallSpm({ 'tokenizer.ggml.scores': scores }));
    expect(broken).toThrow(failure('TOKENIZER_INVALID', /scores" is NaN for token 7/));
  });

  it.each<[string, BuilderValue]>([
    ['tokenizer.ggml.precompiled_charsmap', typed.arrayOf(typed.u8, [1, 2, 3])],
    ['tokenizer.ggml.normalizer', 'lowercase'],
    ['tokenizer.ggml.normalizer.lowercase', true],
    ['tokenizer.ggml.remove_extra_whitespaces', true],
    ['tokenizer.ggml.suppress_tokens', typed.arrayOf(typed.i32, [3])],
    ['tokenizer.rwkv.world', 'x'],
  ])('is refused by name for a key that nothing computes with: %s', (key, value) => {
    for (const build of [smallBpe, smallSpm]) {
      const message = new RegExp(`"${key.replaceAll('.', '\\.')}" is .*not understood`);
      expect(() => tokenizerOf(build({ [key]: value }))).toThrow(failure('TOKENIZER_UNSUPPORTED', message));
    }
  });
});

describe('a vocabulary as converters write it is taken', () => {
  const ids = (value: number) =>
    Object.fromEntries(
      ['bos', 'eos', 'unknown', 'padding', 'seperator', 'cls', 'mask', 'eot', 'eom']
        .concat(['fim_pre', 'fim_suf', 'fim_mid', 'fim_pad', 'fim_rep', 'fim_sep', 'prefix', 'suffix', 'middle'])
        .map((name) => [`tokenizer.ggml.${name}_token_id`, value]),
    );
  const BESIDE = {
    'tokenizer.ggml.add_bos_token': true,
    'tokenizer.ggml.add_eos_token': false,
    'tokenizer.ggml.add_sep_token': false,
    'tokenizer.ggml.add_space_prefix': false,
    'tokenizer.ggml.remove_extra_whitespaces': false,
    'tokenizer.chat_template': 'x',
    'tokenizer.chat_template.rag': 'x',
    'tokenizer.chat_template.tool_use': 'x',
    'tokenizer.chat_templates': ['rag', 'tool_use'],
    'tokenizer.huggingface.json': '{}',
  };

  it('byte-level, with every key at once', () => {
    expect(tokenizerOf(smallBpe({ ...BESIDE, ...ids(3) })).eosId).toBe(3);
  });

  it('SentencePiece with "default" pre-tokenization and merges, as conversions of 2023 and 2024 have them', () => {
    const more = { 'tokenizer.ggml.pre': 'default', 'tokenizer.ggml.merges': ['▁ t', 'e r'] };
    expect(tokenizerOf(smallSpm({ ...BESIDE, ...more, ...ids(3) })).bosId).toBe(3);
  });

  it('with padding beyond the vocabulary, which nothing uses', () => {
    expect(tokenizerOf(smallSpm({ 'tokenizer.ggml.padding_token_id': 32_000 })).bosId).toBe(1);
  });

  it.each([2 ** 32 - 1, typed.i32(-1)])(
    'with %o for "no such token": the default is used, as without the key',
    (none) => {
      expect(tokenizerOf(smallSpm({ 'tokenizer.ggml.bos_token_id': none })).bosId).toBe(1);
    },
  );
});
