import { describe, expect, it } from 'vitest';
import { SpecialTokenSplitter } from '../../../src/lib/tokenizer/special-tokens.js';
import { TokenType, Vocabulary } from '../../../src/lib/tokenizer/vocabulary.js';
import { GgufBuilder, typed } from '../../support/gguf-builder.js';
import { smallBpe, smallSpm, spell, tokenizerOf } from './vocabularies.js';

const bpe = tokenizerOf(smallBpe());
const spm = tokenizerOf(smallSpm());

function split(tokens: Record<string, number>, text: string, parseSpecial = true, breaks?: number[]): string[] {
  const texts = Object.keys(tokens);
  const { metadata } = new GgufBuilder()
    .set('tokenizer.ggml.tokens', texts)
    .set('tokenizer.ggml.token_type', typed.arrayOf(typed.i32, Object.values(tokens)))
    .read();
  const splitter = new SpecialTokenSplitter(new Vocabulary(metadata, {}));
  return splitter
    .split(text, { parseSpecial, breaks })
    .map((fragment) =>
      'tokenId' in fragment ? `#${texts[fragment.tokenId]}` : text.slice(fragment.start, fragment.end),
    );
}

const { control, userDefined } = TokenType;

describe('named tokens', () => {
  it('are recognised when special parsing is on, and are text when it is off', () => {
    const text = 'hello<|im_end|>hello';
    expect(spell(bpe, bpe.encode(text, { parseSpecial: true }))).toEqual(['hello', '<|im_end|>', 'hello']);
    expect(spell(bpe, bpe.encode(text, { parseSpecial: false }))).not.toContain('<|im_end|>');
  });

  it('are always recognised when they are user-defined', () => {
    expect(spell(bpe, bpe.encode('hello<think>', { parseSpecial: false }))).toEqual(['hello', '<think>']);
  });

  it('make SentencePiece start again with a space', () => {
    expect(spell(spm, spm.encode('hello</s>hello', { parseSpecial: true }))).toEqual(['▁hello', '</s>', '▁hello']);
  });

  it('win by length, wherever they stand', () => {
    expect(split({ ab: control, abc: control }, 'abcab')).toEqual(['#abc', '#ab']);
    expect(split({ ab: control, bcd: control }, 'abcd')).toEqual(['a', '#bcd']);
    expect(split({ ab: control, bcd: control, cdefg: control }, 'abcdefg')).toEqual(['#ab', '#cdefg']);
    expect(split({ '\n\n': userDefined, '\n\n\n': userDefined }, '\n\n\n\n\n')).toEqual(['#\n\n\n', '#\n\n']);
  });

  it('do not hide a user-defined token that they overlap when they do not count', () => {
    expect(split({ ab: userDefined, bcd: control }, 'abcd', false)).toEqual(['#ab', 'cd']);
  });

  it('do not span a break between a template and a user', () => {
    expect(split({ '<x>': control }, 'a<x>b<x>', true, [2])).toEqual(['a<x>b', '#<x>']);
    expect(split({ '<x>': control }, '<x>', true, [0, 3])).toEqual(['#<x>']);
    expect(split({ '<x>': userDefined }, '<x>', true, [1])).toEqual(['#<x>']);
    expect(split({ '<|x|>': userDefined }, '<|x|>', true, [1])).toEqual(['<|x|>']);
  });

  it('swallow the white space after them in the Phi-3 family, which was trained so', () => {
    const phi3 = tokenizerOf(smallSpm({ 'general.name': 'Phi-3 mini' }));
    expect(spell(phi3, phi3.encode('<|im_end|> \nhello', { parseSpecial: true }))).toEqual(['<|im_end|>', '▁hello']);
  });
});

describe('a prompt', () => {
  const prompt = (text: string, overrides = {}, addSpecial = true) => {
    const tokenizer = tokenizerOf(smallSpm(overrides));
    return spell(tokenizer, tokenizer.encodePrompt(text, { parseSpecial: true, addSpecial }));
  };

  it('starts with exactly one BOS whatever the text starts with', () => {
    for (const text of ['hello', '<s>hello', '<s><s><s>hello']) expect(prompt(text)).toEqual(['<s>', '▁hello']);
    expect(prompt('')).toEqual(['<s>']);
    expect(prompt('hello<s>')).toEqual(['<s>', '▁hello', '<s>']);
  });

  it('gets no BOS when the request or the file asks for none', () => {
    expect(prompt('hello', {}, false)).toEqual(['▁hello']);
    expect(prompt('hello', { 'tokenizer.ggml.add_bos_token': false })).toEqual(['▁hello']);
    expect(spell(bpe, bpe.encodePrompt('hello', { parseSpecial: true, addSpecial: true }))).toEqual(['hello']);
  });

  it('ends with exactly one EOS when the file asks for it', () => {
    const eos = { 'tokenizer.ggml.add_eos_token': true };
    for (const text of ['hello', 'hello</s>']) expect(prompt(text, eos)).toEqual(['<s>', '▁hello', '</s>']);
  });

  it('starts with BOS by default where the pre-tokenizer implies it', () => {
    expect(tokenizerOf(smallBpe({ 'tokenizer.ggml.pre': 'llama-bpe' })).addBos).toBe(true);
  });
});

describe('the end of a generation', () => {
  const names = (overrides = {}) => {
    const tokenizer = tokenizerOf(smallBpe(overrides));
    return new Set(spell(tokenizer, tokenizer.eogIds));
  };

  it('is every token that llama.cpp knows by name, and those the file names', () => {
    expect(names()).toEqual(new Set(['<|endoftext|>', '<|im_end|>']));
    expect(names({ 'tokenizer.ggml.eot_token_id': 7, 'tokenizer.ggml.eom_token_id': 8 }).size).toBe(4);
  });

  it('includes a chat marker that a conversion typed as ordinary text, which is a control token then', () => {
    const tokens = ['a', '<|im_end|>', '</s>'];
    const vocabulary = new Vocabulary(new GgufBuilder().set('tokenizer.ggml.tokens', tokens).read().metadata, {});
    expect([...vocabulary.eogIds]).toEqual([1]);
    expect([vocabulary.isSpecial(1), vocabulary.isSpecial(2)]).toEqual([true, false]);
  });

  it('is not <|end|> in gpt-oss, which closes a channel with it and shows its channels', () => {
    const tokens = ['a', '<|end|>', '<|return|>', '<|call|>', '<|channel|>'];
    const vocabulary = new Vocabulary(new GgufBuilder().set('tokenizer.ggml.tokens', tokens).read().metadata, {});
    expect([...vocabulary.eogIds]).toEqual([2, 3]);
    expect(tokens.map((_, id) => vocabulary.isRendered(id))).toEqual([true, true, false, false, true]);
  });
});
