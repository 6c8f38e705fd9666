import { describe, expect, test } from 'vitest';
import { type ByteSource, MemoryByteSource } from '../../../src/lib/gguf/byte-source.js';
import { readGguf } from '../../../src/lib/gguf/reader.js';
import { GgufBuilder, tinyLlama, typed } from '../../support/gguf-builder.js';

/** The message of the one error that reading must end in; its form is checked here, once for all tests. */
function refusal(input: GgufBuilder | Uint8Array | ByteSource): string {
  const source = input instanceof Uint8Array ? new MemoryByteSource(input, 'test.gguf') : input;
  let message = '';
  expect(() => {
    try {
      if (source instanceof GgufBuilder) source.read();
      else readGguf(source);
    } catch (error) {
      message = error instanceof Error ? error.message : '';
      throw error;
    }
  }).toThrow(expect.objectContaining({ name: 'GgufError', reason: 'GGUF_INVALID' }));
  expect(message).toMatch(/^(test|tiny-llama)\.gguf: .*\(at byte \d+\)$/);
  return message;
}

const latin1 = (text: string) => Buffer.from(text.padEnd(64, '\0'), 'latin1');

describe('the first bytes', () => {
  test('a file cut off anywhere in its header or data is refused', () => {
    const bytes = tinyLlama().build();
    const lastTensorEnd = bytes.length;
    for (let length = 0; length < lastTensorEnd; length += length < 600 ? 1 : 97) refusal(bytes.subarray(0, length));
  });

  test('an empty file is cut off in its magic number', () => {
    expect(refusal(new Uint8Array(0))).toBe(
      'test.gguf: the magic number is cut off: 4 bytes are needed and the file ends at byte 0 (at byte 0)',
    );
  });

  test.each([
    ['safetensors', Buffer.from('\x40\x02\0\0\0\0\0\0{"__metadata__":{}}', 'latin1'), 'this looks like safetensors'],
    ['a PyTorch zip', latin1('PK\x03\x04'), 'this looks like a PyTorch zip checkpoint'],
    ['a pickle', latin1('\x80\x02\x8a\x0a'), 'this looks like a Python pickle'],
    ['GGML', latin1('lmgg'), 'this looks like a GGML legacy file'],
    ['GGJT', latin1('tjgg'), 'this looks like a GGML legacy file'],
    ['a Git LFS pointer', latin1('version https://git-lfs.github.com/spec/v1'), 'this is a Git LFS pointer'],
    ['a web page', latin1('<!DOCTYPE html><html>'), 'this is a web page'],
    ['something else', latin1('hello world'), 'this is not a GGUF file'],
  ])('%s is recognised', (_, bytes, advice) => {
    expect(refusal(bytes)).toContain(`the magic number is not "GGUF": ${advice}`);
  });

  test('a big-endian file is told apart from an unknown version', () => {
    expect(refusal(new GgufBuilder({ version: 0x0300_0000 }))).toContain('this is a big-endian GGUF file');
  });

  test.each([0, 1, 4, 77])('version %i is refused', (version) => {
    expect(refusal(new GgufBuilder({ version }))).toContain(
      `the format version is ${version}; versions 2 and 3 are supported (at byte 4)`,
    );
  });
});

describe('counts and lengths', () => {
  const absurd = [1_000_000, 2 ** 40, 2n ** 63n, 2n ** 64n - 1n];

  test.each(absurd)('%s tensors are refused', (tensorCount) => {
    expect(refusal(new GgufBuilder({ tensorCount }))).toContain(`the header claims ${tensorCount} tensors, but only`);
  });

  test.each(absurd)('%s metadata keys are refused', (metadataCount) => {
    expect(refusal(new GgufBuilder({ metadataCount }))).toContain(`claims ${metadataCount} metadata keys, but only`);
  });

  test.each([
    ['strings', 8],
    ['booleans', 7],
    ['arrays', 9],
    ['numbers', 0],
    ['numbers', 12],
  ])('an array of absurdly many %s (type %i) is refused', (what, elementType) => {
    for (const count of absurd) {
      const payload = Buffer.alloc(12);
      payload.writeUInt32LE(elementType);
      payload.writeBigUInt64LE(BigInt(count), 4);
      const message = refusal(new GgufBuilder().set('a', typed.raw(9, payload)));
      expect(message).toContain(`metadata key "a" claims ${count} ${what}, but only`);
    }
  });

  test('an absurdly long string is refused', () => {
    const payload = Buffer.alloc(8, 0xff);
    expect(refusal(new GgufBuilder().set('a', typed.raw(8, payload)))).toContain(
      'metadata key "a" has a string of 18446744073709551615 bytes, but only',
    );
  });

  test('a header larger than any real one is refused before it is read', () => {
    const head = new GgufBuilder({ metadataCount: 1 }).build();
    const payload = Buffer.alloc(21);
    payload.writeBigUInt64LE(1n, 0);
    payload.write('a', 8);
    payload.writeUInt32LE(8, 9);
    payload.writeBigUInt64LE(2n ** 31n, 13);
    const data = Buffer.concat([head.subarray(0, 24), payload]);
    const source: ByteSource = {
      name: 'test.gguf',
      size: 2 ** 40,
      read: (offset, length) => {
        expect(length).toBeLessThan(1 << 20);
        return Buffer.concat([data.subarray(offset), Buffer.alloc(length)]).subarray(0, length);
      },
    };
    expect(refusal(source)).toContain('metadata key "a" has a string of 2147483648 bytes, but only 134217683 bytes');
  });
});

describe('metadata', () => {
  test('a key that occurs twice is refused', () => {
    expect(refusal(new GgufBuilder().append('a', 1).append('a', 2))).toContain('metadata key "a" occurs twice');
  });

  test('an empty key is refused', () => {
    expect(refusal(new GgufBuilder().append('', 1))).toContain('metadata key 0 of 1 is empty');
  });

  test('a key longer than the format allows is refused', () => {
    expect(refusal(new GgufBuilder().append('k'.repeat(65_536), 1))).toContain('metadata key 0 of 1 has 65536 char');
  });

  test('an unknown value type is refused, also inside an array', () => {
    expect(refusal(new GgufBuilder().set('a', typed.raw(13, Buffer.alloc(8))))).toContain(
      'metadata key "a" has the unknown value type 13',
    );
    expect(refusal(new GgufBuilder().set('a', typed.array(typed.raw(99, Buffer.alloc(8)))))).toContain(
      'metadata key "a" has the unknown value type 99',
    );
  });

  test('a boolean that is neither 0 nor 1 is refused', () => {
    expect(refusal(new GgufBuilder().set('a', typed.bool(2)))).toContain('metadata key "a" has the boolean 2');
  });

  test('arrays nested deeper than four are refused', () => {
    let value = typed.array(typed.u8(1));
    for (let depth = 1; depth < 4; depth++) value = typed.array(value);
    expect(new GgufBuilder().set('a', value).read().metadata.has('a')).toBe(true);
    expect(refusal(new GgufBuilder().set('a', typed.array(value)))).toContain('"a" nests arrays deeper than 4');
  });

  test('more nested arrays than a file can sensibly hold are refused, also in several keys', () => {
    const many = typed.arrayOf(typed.strings, Array<string[]>(40_000).fill([]));
    expect(refusal(new GgufBuilder().set('a', many).set('b', many))).toContain('"b" has more than 65536 nested arrays');
  });

  test.each([0, 3, 4, 48, 2 ** 21, -32, '32'])('the alignment %j is refused', (alignment) => {
    expect(refusal(new GgufBuilder().set('general.alignment', alignment))).toContain(
      `metadata key "general.alignment" is ${alignment} instead of a power of two from 8 to 1048576`,
    );
  });
});

describe('tensors', () => {
  test('a name that occurs twice is refused', () => {
    const builder = new GgufBuilder().tensor('w', { dims: [4] }).tensor('w', { dims: [4] });
    expect(refusal(builder)).toContain('tensor "w" occurs twice');
  });

  test('an empty name is refused', () => {
    expect(refusal(new GgufBuilder().tensor('', { dims: [4] }))).toContain('the name of tensor 0 of 1 is empty');
  });

  test('control characters of a damaged name do not reach the message', () => {
    expect(refusal(new GgufBuilder().tensor('\x1b[2J', { dims: [0] }))).toContain('tensor "\\u001b[2J" has the size 0');
  });

  test.each([[[]], [[1, 1, 1, 1, 1]]])('%j is not a number of dimensions', (dims) => {
    expect(refusal(new GgufBuilder().tensor('w', { dims }))).toContain(
      `tensor "w" has ${dims.length} dimensions instead of 1 to 4`,
    );
  });

  test('a dimension of size 0 is refused', () => {
    expect(refusal(new GgufBuilder().tensor('w', { dims: [4, 0] }))).toContain('"w" has the size 0 in dimension 1');
  });

  test('a dimension beyond 2^53 is refused', () => {
    expect(refusal(new GgufBuilder().tensor('w', { dims: [2n ** 63n] }))).toContain(
      'tensor "w" has the impossible size 9223372036854775808 in dimension 0',
    );
  });

  test('dimensions whose product passes 2^53 are refused', () => {
    const dims = [2 ** 30, 2 ** 30, 2 ** 30, 2 ** 30];
    expect(refusal(new GgufBuilder().tensor('w', { dims }))).toContain('tensor "w" is impossibly large: 1073741824 ×');
  });

  test('rows of partial blocks are refused', () => {
    expect(refusal(new GgufBuilder().tensor('w', { type: 'Q4_K', dims: [128, 2] }))).toContain(
      'tensor "w" has rows of 128 elements, but Q4_K stores blocks of 256',
    );
  });

  test('an unknown tensor type is refused', () => {
    expect(refusal(new GgufBuilder().tensor('w', { dims: [4], typeId: 31 }))).toContain(
      'tensor "w" has the unknown tensor type 31',
    );
  });

  test('a misaligned offset is refused', () => {
    expect(refusal(new GgufBuilder().tensor('w', { dims: [1], relativeOffset: 4 }))).toContain(
      'tensor "w" has the offset 4, which is not a multiple of 32',
    );
  });

  test.each([64, 2 ** 52])('the offset %i outside of the file is refused', (relativeOffset) => {
    expect(refusal(new GgufBuilder().tensor('w', { dims: [4], relativeOffset }))).toMatch(
      /tensor "w" occupies bytes \d+ to \d+, but the file has only \d+/,
    );
  });

  test('an offset beyond 2^53 is refused', () => {
    expect(refusal(new GgufBuilder().tensor('w', { dims: [4], relativeOffset: 2n ** 60n }))).toContain(
      'tensor "w" has the impossible offset 1152921504606846976',
    );
  });

  test('overlapping tensors are refused', () => {
    const builder = new GgufBuilder().tensor('a', { dims: [16] }).tensor('b', { dims: [4], relativeOffset: 32 });
    expect(refusal(builder)).toContain('tensor "b" overlaps tensor "a"');
  });
});
