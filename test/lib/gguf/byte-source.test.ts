import { chmodSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { FileByteSource, MemoryByteSource } from '../../../src/lib/gguf/byte-source.js';

const folder = mkdtempSync(join(tmpdir(), 'rocmforge-gguf-'));
afterAll(() => rmSync(folder, { recursive: true }));

const MIB = 1 << 20;
const data = Uint8Array.from({ length: 3 * MIB }, (_, index) => (index * 7 + (index >> 12)) & 0xff);

function writeSample(name: string): string {
  const path = join(folder, name);
  writeFileSync(path, data);
  return path;
}

test('a file source gives the bytes of any range, across read-ahead borders and backwards', () => {
  const source = new FileByteSource(writeSample('ranges.bin'));
  expect(source.size).toBe(data.length);
  const ranges = [
    [0, 16],
    [MIB - 8, 16],
    [100, 2 * MIB],
    [data.length - 1, 1],
    [5, 0],
    [data.length, 0],
  ] as const;
  for (const [offset, length] of ranges) {
    expect(Buffer.compare(source.read(offset, length), data.subarray(offset, offset + length))).toBe(0);
  }
  source.close();
});

test('a view stays as it was after later reads', () => {
  const source = new FileByteSource(writeSample('views.bin'));
  const first = source.read(0, 64);
  source.read(2 * MIB, 64);
  expect(Buffer.compare(first, data.subarray(0, 64))).toBe(0);
  source.close();
});

test('a range outside of the source is a defect of the caller', () => {
  const source = new MemoryByteSource(data);
  expect(() => source.read(data.length, 1)).toThrow(RangeError);
  expect(() => source.read(-1, 1)).toThrow(RangeError);
});

test('a missing file is MODEL_FILE_UNREADABLE and says so', () => {
  expect(() => new FileByteSource('/nowhere/model.gguf')).toThrow(
    expect.objectContaining({ reason: 'MODEL_FILE_UNREADABLE', message: '/nowhere/model.gguf does not exist' }),
  );
});

test('a directory is MODEL_FILE_UNREADABLE and says so', () => {
  expect(() => new FileByteSource(folder)).toThrow(
    expect.objectContaining({
      reason: 'MODEL_FILE_UNREADABLE',
      message: `${folder} is a directory; give the path of a .gguf file`,
    }),
  );
});

test.skipIf(process.getuid?.() === 0)('a file without permission is MODEL_FILE_UNREADABLE and says so', () => {
  const path = writeSample('secret.bin');
  chmodSync(path, 0);
  expect(() => new FileByteSource(path)).toThrow(
    expect.objectContaining({ reason: 'MODEL_FILE_UNREADABLE', message: `${path} may not be read by this user` }),
  );
});

test('a file that shrinks while it is read is MODEL_FILE_UNREADABLE', () => {
  const path = writeSample('shrinking.bin');
  const source = new FileByteSource(path);
  truncateSync(path, 10);
  expect(() => source.read(0, 64)).toThrow(
    expect.objectContaining({ reason: 'MODEL_FILE_UNREADABLE', message: expect.stringContaining('ends at byte 10') }),
  );
  source.close();
});
