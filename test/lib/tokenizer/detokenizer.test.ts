import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Detokenizer, detokenize } from '../../../src/lib/tokenizer/detokenizer.js';
import { runs } from '../../support/run-size.js';
import { smallBpe, smallSpm, tokenizerOf } from './vocabularies.js';

const bpe = tokenizerOf(smallBpe());
const spm = tokenizerOf(smallSpm());
const encode = (tokenizer: typeof bpe, text: string) => [...tokenizer.encode(text, { parseSpecial: true })];

/** The slow, plain twin: all bytes at once. */
function decodeAtOnce(tokenizer: typeof bpe, ids: readonly number[]): string {
  const bytes = ids.filter((id) => tokenizer.isRendered(id)).flatMap((id) => [...tokenizer.tokenBytes(id)]);
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(Uint8Array.from(bytes));
}

describe.each([
  ['byte-level BPE', bpe],
  ['SentencePiece', spm],
])('detokenizing %s', (_name, tokenizer) => {
  const anyIds = fc.array(fc.nat(tokenizer.vocabularySize - 1), { maxLength: 60 });
  /** Bytes of real characters, cut and joined anywhere: the ids of bytes are neighbours. */
  const brokenText = fc
    .array(fc.tuple(fc.string({ unit: 'binary', maxLength: 6 }), fc.nat(8)), { maxLength: 6 })
    .map((parts) => parts.flatMap(([text, dropped]) => encode(tokenizer, text).slice(dropped)));

  it('gives in chunks what it gives at once, also for bytes that are no UTF-8', () => {
    fc.assert(
      fc.property(fc.oneof(anyIds, brokenText), (ids) => {
        const detokenizer = new Detokenizer(tokenizer, { wholeText: false });
        const chunks = ids.map((id) => detokenizer.push(id));
        chunks.push(detokenizer.finish());
        expect(chunks.join('')).toBe(decodeAtOnce(tokenizer, ids));
        for (const chunk of chunks) expect(chunk).not.toMatch(/\p{Surrogate}/u);
      }),
      { numRuns: runs(1000) },
    );
  });

  it('holds a character back until its last byte', () => {
    const detokenizer = new Detokenizer(tokenizer, { wholeText: true });
    const chunks = encode(tokenizer, '🦙').map((id) => detokenizer.push(id));
    expect(chunks.filter((chunk) => chunk !== '')).toEqual(['🦙']);
    expect(chunks.at(-1)).toBe('🦙');
  });

  it('ends an unfinished character as U+FFFD', () => {
    const detokenizer = new Detokenizer(tokenizer, { wholeText: true });
    for (const id of encode(tokenizer, '🦙').slice(0, -1)) expect(detokenizer.push(id)).toBe('');
    expect(detokenizer.finish()).toBe('\ufffd');
  });

  it('keeps a byte order mark, which is text here', () => {
    expect(detokenize(tokenizer, encode(tokenizer, '\ufeffa'))).toBe('\ufeffa');
  });

  it('writes special tokens only when asked to', () => {
    const ids = encode(tokenizer, 'hello<|im_end|>hello');
    expect(detokenize(tokenizer, ids)).toMatch(/^hello ?hello$/);
    expect(detokenize(tokenizer, ids, { wholeText: true, includeSpecial: true })).toMatch(/^hello<\|im_end\|> ?hello$/);
  });
});

describe('the space in front of a SentencePiece text', () => {
  const ids = encode(spm, 'hello world');

  it('is dropped from a whole text, behind BOS too, and only once', () => {
    expect(detokenize(spm, ids)).toBe('hello world');
    expect(detokenize(spm, [1, ...ids])).toBe('hello world');
    expect(detokenize(spm, encode(spm, '  hello'))).toBe('  hello');
  });

  it('is kept in a generation, which continues its prompt', () => {
    expect(detokenize(spm, ids, { wholeText: false })).toBe(' hello world');
  });

  it('is kept where the file adds none', () => {
    const bare = tokenizerOf(smallSpm({ 'tokenizer.ggml.add_space_prefix': false }));
    expect(detokenize(bare, encode(bare, ' hello'))).toBe(' hello');
  });
});
