import { describe, expect, it } from 'vitest';
import { pairTokens } from '../../../src/lib/tokenizer/pair-tokens.js';
import { createTokenizer } from '../../../src/lib/tokenizer/tokenizer.js';
import { type BuilderValue, GgufBuilder, typed } from '../../support/gguf-builder.js';

const TOKENS = ['<s>', '<pad>', '</s>', '<unk>', '[SEP]', 'a'];
const key = (name: string) => `tokenizer.ggml.${name}`;

function pairOf(model: string, changes: Readonly<Record<string, BuilderValue>>) {
  const builder = new GgufBuilder({ name: 'pairs.gguf' }).setAll({
    [key('model')]: model,
    [key('tokens')]: TOKENS,
    [key('token_type')]: typed.arrayOf(typed.i32, [3, 3, 3, 2, 3, 1]),
    [key('scores')]: typed.arrayOf(typed.f32, [0, 0, 0, 0, 0, -1]),
    [key('unknown_token_id')]: 3,
    ...changes,
  });
  const { metadata } = builder.read();
  return pairTokens(metadata, createTokenizer(metadata));
}

const added = (bos: boolean, eos: boolean, sep: boolean) => ({
  [key('add_bos_token')]: bos,
  [key('add_eos_token')]: eos,
  [key('add_sep_token')]: sep,
});
const WORDS = { [key('cls_token_id')]: 0, [key('seperator_token_id')]: 4 };
const PIECES = { [key('bos_token_id')]: 0, [key('eos_token_id')]: 2, [key('seperator_token_id')]: 4 };
const BYTES = { ...PIECES, [key('merges')]: [] as string[] };

describe('tokens around the texts of a pair are llama.cpp’s', () => {
  it.each([
    ['WordPiece without keys', 'bert', WORDS, [[0], [4], []]],
    ['WordPiece of a converter', 'bert', { ...WORDS, ...added(true, true, false) }, [[0], [4], [4]]],
    ['Unigram without keys', 't5', PIECES, [[], [2], [2]]],
    ['XLM-R', 't5', { ...PIECES, ...added(true, true, true) }, [[0], [2, 4], [2]]],
    ['ModernBERT', 'gpt2', { ...BYTES, [key('pre')]: 'gpt-2', ...added(true, true, true) }, [[0], [2, 4], [2]]],
  ] as const)('%s', (_what, model, changes, [first, between, last]) => {
    expect(pairOf(model, changes)).toEqual({ first, between, last });
  });

  it('are refused without the separator that they need', () => {
    const changes = { [key('bos_token_id')]: 0, [key('eos_token_id')]: 2, ...added(true, true, true) };
    expect(() => pairOf('t5', changes)).toThrow(/no "tokenizer.ggml.seperator_token_id"/);
  });
});
