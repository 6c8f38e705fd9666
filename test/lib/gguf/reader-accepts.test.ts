import { expect, test } from 'vitest';
import { MemoryByteSource } from '../../../src/lib/gguf/byte-source.js';
import { readGguf } from '../../../src/lib/gguf/reader.js';
import { GgufBuilder, tinyLlama, typed } from '../../support/gguf-builder.js';

test.each([2, 3])('version %i is read', (version) => {
  const file = new GgufBuilder({ version })
    .set('general.architecture', 'llama')
    .tensor('a', { dims: [4] })
    .read();
  expect(file).toMatchObject({ version, name: 'test.gguf', alignment: 32 });
  expect(file.metadata.string('general.architecture')).toBe('llama');
});

test('a file without keys and tensors is a sound file', () => {
  const file = new GgufBuilder().read();
  expect([...file.metadata.keys()]).toEqual([]);
  expect(file.tensors.size).toBe(0);
});

test('every scalar type comes out as its natural JavaScript value', () => {
  const { metadata } = new GgufBuilder()
    .setAll({
      u8: typed.u8(255),
      i8: typed.i8(-128),
      u16: typed.u16(65_535),
      i16: typed.i16(-32_768),
      u32: typed.u32(4_294_967_295),
      i32: typed.i32(-2_147_483_648),
      f32: typed.f32(0.5),
      bool: typed.bool(true),
      string: 'Grüße 🌍',
      u64: typed.u64(7n),
      i64: typed.i64(-7n),
      f64: typed.f64(Math.PI),
    })
    .read();
  const values = Object.fromEntries([...metadata.keys()].map((key) => [key, metadata.get(key)]));
  expect(values).toEqual({
    u8: 255,
    i8: -128,
    u16: 65_535,
    i16: -32_768,
    u32: 4_294_967_295,
    i32: -2_147_483_648,
    f32: 0.5,
    bool: true,
    string: 'Grüße 🌍',
    u64: 7,
    i64: -7,
    f64: Math.PI,
  });
});

test('64-bit integers are numbers as far as a double is exact, and bigints beyond', () => {
  const { metadata } = new GgufBuilder()
    .setAll({
      exact: typed.u64(2n ** 53n - 1n),
      beyond: typed.u64(2n ** 53n),
      largest: typed.u64(2n ** 64n - 1n),
      lowExact: typed.i64(-(2n ** 53n) + 1n),
      lowBeyond: typed.i64(-(2n ** 63n)),
    })
    .read();
  expect(metadata.get('exact')).toBe(Number.MAX_SAFE_INTEGER);
  expect(metadata.get('beyond')).toBe(2n ** 53n);
  expect(metadata.get('largest')).toBe(2n ** 64n - 1n);
  expect(metadata.get('lowExact')).toBe(Number.MIN_SAFE_INTEGER);
  expect(metadata.get('lowBeyond')).toBe(-(2n ** 63n));
});

test('arrays of numbers are typed arrays of their own width', () => {
  const { metadata } = new GgufBuilder()
    .setAll({
      u8: typed.array(typed.u8(1), typed.u8(2)),
      i8: typed.array(typed.i8(-1)),
      u16: typed.array(typed.u16(3)),
      i16: typed.array(typed.i16(-3)),
      u32: typed.array(typed.u32(4)),
      i32: typed.array(typed.i32(-4)),
      f32: typed.array(typed.f32(0.25)),
      u64: typed.array(typed.u64(5n)),
      i64: typed.array(typed.i64(-5n)),
      f64: typed.array(typed.f64(0.1)),
      empty: typed.array(),
    })
    .read();
  expect(metadata.get('u8')).toEqual(Uint8Array.of(1, 2));
  expect(metadata.get('i8')).toEqual(Int8Array.of(-1));
  expect(metadata.get('u16')).toEqual(Uint16Array.of(3));
  expect(metadata.get('i16')).toEqual(Int16Array.of(-3));
  expect(metadata.get('u32')).toEqual(Uint32Array.of(4));
  expect(metadata.get('i32')).toEqual(Int32Array.of(-4));
  expect(metadata.get('f32')).toEqual(Float32Array.of(0.25));
  expect(metadata.get('u64')).toEqual(BigUint64Array.of(5n));
  expect(metadata.get('i64')).toEqual(BigInt64Array.of(-5n));
  expect(metadata.get('f64')).toEqual(Float64Array.of(0.1));
  expect(metadata.get('empty')).toEqual(new Uint8Array(0));
});

test('arrays of strings, booleans and arrays are lists', () => {
  const { metadata } = new GgufBuilder()
    .setAll({
      strings: ['a', '', 'Ġé'],
      booleans: typed.array(typed.bool(true), typed.bool(false)),
      nested: typed.array(typed.array(typed.u8(1)), typed.array(typed.strings(['x']))),
    })
    .read();
  expect(metadata.strings('strings')).toEqual(['a', '', 'Ġé']);
  expect(metadata.get('booleans')).toEqual([true, false]);
  expect(metadata.get('nested')).toEqual([Uint8Array.of(1), [['x']]]);
});

test('a header of many read windows comes out whole, also where a value is larger than a window', () => {
  const tokens = Array.from({ length: 60_000 }, (_, id) => `${'é'.repeat(id % 7)}${id}`);
  const numbers = Array.from({ length: 200_000 }, (_, id) => id);
  const long = 'x'.repeat(3 << 20);
  const { metadata } = new GgufBuilder()
    .setAll({
      tokens,
      long,
      numbers: typed.arrayOf(typed.u32, numbers),
      last: 7,
    })
    .read();
  expect(metadata.strings('tokens')).toEqual(tokens);
  expect(metadata.string('long') === long).toBe(true);
  expect(metadata.numbers('numbers')).toEqual(Uint32Array.from(numbers));
  expect(metadata.number('last')).toBe(7);
});

test('tensors have absolute offsets, GGUF dims and their own bytes', () => {
  const data = Uint8Array.from({ length: 34 }, (_, index) => index);
  const source = new GgufBuilder()
    .tensor('first', { dims: [3] })
    .tensor('second', { type: 'Q8_0', dims: [32, 1], data })
    .source();
  const { tensors, dataOffset } = readGguf(source);
  expect(dataOffset % 32).toBe(0);
  expect([...tensors.keys()]).toEqual(['first', 'second']);
  expect(tensors.get('first')).toEqual({
    name: 'first',
    type: 'F32',
    part: 0,
    dims: [3],
    offset: dataOffset,
    bytes: 12,
  });
  const second = tensors.get('second')!;
  expect(second).toMatchObject({ type: 'Q8_0', dims: [32, 1], offset: dataOffset + 32, bytes: 34 });
  expect(Buffer.compare(source.read(second.offset, second.bytes), data)).toBe(0);
});

test('general.alignment moves the data section, wherever the key stands', () => {
  const file = new GgufBuilder()
    .set('a', 1)
    .set('general.alignment', 256)
    .tensor('t', { dims: [1] })
    .read();
  expect(file.alignment).toBe(256);
  expect(file.dataOffset % 256).toBe(0);
  expect(file.tensors.get('t')!.offset).toBe(file.dataOffset);
});

test('tensors may stand in any order and leave gaps', () => {
  const { tensors, dataOffset } = new GgufBuilder()
    .tensor('late', { dims: [4], relativeOffset: 96, data: new Uint8Array(128) })
    .tensor('early', { dims: [4], relativeOffset: 0 })
    .read();
  expect(tensors.get('late')!.offset - dataOffset).toBe(96);
  expect(tensors.get('early')!.offset).toBe(dataOffset);
});

test('the fingerprint is equal for equal files and changes with the header and with the size', () => {
  const bytes = tinyLlama().build();
  const fingerprint = (data: Uint8Array) => readGguf(new MemoryByteSource(data, 'any name')).fingerprint;
  expect(fingerprint(bytes)).toMatch(/^[0-9a-f]{64}$/);
  expect(fingerprint(bytes)).toBe(tinyLlama().read().fingerprint);
  expect(fingerprint(Buffer.concat([bytes, Buffer.alloc(1)]))).not.toBe(fingerprint(bytes));
  expect(tinyLlama({ 'general.name': 'tiny lloma' }).read().fingerprint).not.toBe(fingerprint(bytes));
});
