import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { FileByteSource } from '../../../src/lib/gguf/byte-source.js';
import { readGguf } from '../../../src/lib/gguf/reader.js';
import { writeGguf } from '../../../src/lib/gguf/writer.js';

const output = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'written.gguf');
const bytes = (length: number, value: number) => new Uint8Array(length).fill(value);

describe('writeGguf', () => {
  it('writes metadata and tensors that the reader reads back', () => {
    const written = writeGguf(
      output,
      {
        'general.architecture': { type: 'string', value: 'llama' },
        'a.u32': { type: 'u32', value: 4_000_000_000 },
        'a.i32': { type: 'i32', value: -3 },
        'a.f32': { type: 'f32', value: 0.5 },
        'a.bool': { type: 'bool', value: true },
        'a.strings': { type: 'strings', value: ['Ġé', ''] },
        'a.i32s': { type: 'i32s', value: [-1, 2] },
        'a.f32s': { type: 'f32s', value: [0.25, -8] },
      },
      [
        { name: 'first', type: 'Q4_0', dims: [32, 3], data: () => [bytes(50, 1), bytes(4, 2)] },
        { name: 'second', type: 'F32', dims: [5], data: () => [bytes(20, 3)] },
      ],
    );
    const source = new FileByteSource(output);
    try {
      const file = readGguf(source);
      expect(file.size).toBe(written);
      expect([...file.tensors.values()].map(({ name, type, dims, bytes: size }) => [name, type, dims, size])).toEqual([
        ['first', 'Q4_0', [32, 3], 54],
        ['second', 'F32', [5], 20],
      ]);
      const { offset } = file.tensors.get('second')!;
      expect(offset % 32).toBe(0);
      expect([...source.read(offset, 20)]).toEqual([...bytes(20, 3)]);
      expect([...source.read(file.tensors.get('first')!.offset + 48, 6)]).toEqual([1, 1, 2, 2, 2, 2]);
    } finally {
      source.close();
    }
  });

  it.each([19, 21])('refuses a tensor whose data are %i bytes instead of 20', (length) => {
    const tensor = { name: 'odd', type: 'F32', dims: [5], data: () => [bytes(length, 0)] } as const;
    expect(() => writeGguf(output, {}, [tensor])).toThrow(/odd/);
  });
});
