import fc from 'fast-check';
import { expect, test } from 'vitest';
import { MemoryByteSource } from '../../../src/lib/gguf/byte-source.js';
import { readGguf } from '../../../src/lib/gguf/reader.js';
import { decodeText } from '../../../src/lib/gguf/text.js';
import { GgufBuilder, typed } from '../../support/gguf-builder.js';
import { runs } from '../../support/run-size.js';

/** The bytes that `decodeText` was given. */
function encodeText(text: string): Uint8Array {
  return Buffer.concat(
    Array.from(text, (character) => {
      const code = character.codePointAt(0)!;
      return code >= 0xdc80 && code <= 0xdcff ? Uint8Array.of(code - 0xdc00) : Buffer.from(character, 'utf8');
    }),
  );
}

/** Bytes as damage leaves them: parts of characters among whole ones. */
const damagedText = fc
  .array(
    fc.oneof(
      fc.uint8Array({ maxLength: 4 }),
      fc.string({ unit: 'binary', maxLength: 3 }).map((text) => Buffer.from(text)),
    ),
  )
  .map((parts) => Buffer.concat(parts));

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

test('text is decoded as a lenient decoder does where bytes are characters, and byte by byte elsewhere', () => {
  fc.assert(
    fc.property(damagedText, (bytes) => {
      const text = decodeText(bytes);
      expect([...encodeText(text)]).toEqual([...bytes]);
      // A decoder gives one U+FFFD for several wrong bytes.
      const plain = (form: string) => form.replace(/[\ufffd\udc80-\udcff]+/gu, '\ufffd');
      expect(plain(text)).toBe(plain(new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes)));
    }),
    { numRuns: runs(2_000) },
  );
});

test('overlong forms, encoded surrogates and cut sequences are kept byte by byte', () => {
  for (const bytes of [
    [0xc0, 0x80],
    [0xed, 0xb2, 0x80],
    [0xf0, 0x9f, 0x8c],
    [0xf4, 0x90, 0x80, 0x80],
    [0xf0, 0x8f, 0xbf, 0xbf],
    [0xe0, 0x9f, 0xbf],
    [0xc1, 0xbf],
    [0xf5, 0x80, 0x80, 0x80],
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

test('without its tokens a file is the same but for their text', () => {
  const builder = new GgufBuilder()
    .set('general.name', 'a')
    .set('tokenizer.ggml.tokens', ['the', 'old', 'fox'])
    .set('tokenizer.ggml.model', 'gpt2')
    .set('tags', ['b', 'c'])
    .tensor('t', { dims: [32] });
  const whole = builder.read();
  const { metadata, fingerprint, tensors, dataOffset } = readGguf(builder.source(), true);
  expect(metadata.strings('tokenizer.ggml.tokens')).toEqual(['', '', '']);
  expect([metadata.string('tokenizer.ggml.model'), metadata.strings('tags')]).toEqual(['gpt2', ['b', 'c']]);
  expect({ fingerprint, tensors, dataOffset }).toEqual({
    fingerprint: whole.fingerprint,
    tensors: whole.tensors,
    dataOffset: whole.dataOffset,
  });
});

test('a token that is longer than the file is refused where its text is not read, too', () => {
  const bytes = Buffer.from(new GgufBuilder().set('tokenizer.ggml.tokens', ['the', 'old']).build());
  bytes.writeUInt32LE(1_000_000, bytes.lastIndexOf('old') - 8);
  for (const skipsTokens of [false, true])
    expect(() => readGguf(new MemoryByteSource(bytes, 'x'), skipsTokens)).toThrow(/has a string of 1000000 bytes/);
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
