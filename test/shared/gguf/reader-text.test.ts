import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeText, encodeText } from '../../../src/shared/gguf/text.js';
import { GgufBuilder, typed } from '../../support/gguf-builder.js';
import { runs } from '../../support/run-size.js';

test('ordinary text decodes as UTF-8 and encodes back', () => {
  for (const text of ['', 'plain', 'Ġthe', '日本語', '🌍', '\ufffd', 'e\u0301']) {
    expect(decodeText(Buffer.from(text))).toBe(text);
    expect(Buffer.from(encodeText(text)).toString()).toBe(text);
  }
});

test('any bytes survive decoding and encoding', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 24 }), (bytes) => {
      expect([...encodeText(decodeText(bytes))]).toEqual([...bytes]);
    }),
    { numRuns: runs(2_000) },
  );
});

test('overlong forms, encoded surrogates and cut sequences are kept byte by byte', () => {
  for (const bytes of [
    [0xc0, 0x80],
    [0xed, 0xb2, 0x80],
    [0xf0, 0x9f, 0x8c],
  ]) {
    expect(decodeText(Uint8Array.from(bytes))).toBe(String.fromCharCode(...bytes.map((byte) => 0xdc00 + byte)));
  }
});

test('vocabulary tokens of raw bytes stay different from each other', () => {
  const tokens = [Uint8Array.of(0xe2), Uint8Array.of(0xe3), Buffer.from('é'), Uint8Array.of(0x61, 0xff)];
  const { metadata } = new GgufBuilder().set('tokenizer.ggml.tokens', typed.strings(tokens)).read();
  const texts = metadata.strings('tokenizer.ggml.tokens')!;
  expect(texts).toEqual(['\udce2', '\udce3', 'é', 'a\udcff']);
  expect(texts.map((text) => [...encodeText(text)])).toEqual(tokens.map((bytes) => [...bytes]));
});

test('a token that is a byte order mark is kept', () => {
  expect(new GgufBuilder().set('tokens', ['\ufeff', 'a']).read().metadata.strings('tokens')).toEqual(['\ufeff', 'a']);
});

test('a real U+FFFD in a string is not taken for damage', () => {
  expect(new GgufBuilder().set('a', '\ufffd').read().metadata.string('a')).toBe('\ufffd');
});

test.each([
  ['a key', new GgufBuilder().append(Uint8Array.of(0x61, 0xff), 1), 'metadata key 0 of 1'],
  ['a scalar string', new GgufBuilder().set('general.name', typed.string(Uint8Array.of(0xff))), '"general.name"'],
  ['a list outside of the tokenizer', new GgufBuilder().set('tags', typed.strings([Uint8Array.of(0xff)])), '"tags"'],
])('%s that is not UTF-8 is refused', (_, builder, subject) => {
  expect(() => builder.read()).toThrow(
    expect.objectContaining({
      reason: 'GGUF_INVALID',
      message: expect.stringMatching(new RegExp(`${subject} is not valid UTF-8 \\(at byte \\d+\\)$`)),
    }),
  );
});
