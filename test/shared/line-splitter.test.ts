import { fc, it } from '@fast-check/vitest';
import { describe, expect } from 'vitest';
import { LineSplitter } from '../../src/shared/line-splitter.js';

function linesOf(chunks: readonly Buffer[]): string[] {
  const lines: string[] = [];
  const splitter = new LineSplitter((line) => lines.push(line));
  for (const chunk of chunks) splitter.push(chunk);
  splitter.end();
  return lines;
}

describe('what a process writes', () => {
  it.prop([fc.array(fc.string({ maxLength: 40 }).map((text) => text.replace(/[\r\n]/g, '-'))), fc.nat(50)])(
    'comes in its lines, wherever it was cut',
    (lines, seed) => {
      const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(''));
      const chunks: Buffer[] = [];
      for (let at = 0, size = 1; at < bytes.length; at += size, size = 1 + ((seed * 7 + at) % 23)) {
        chunks.push(bytes.subarray(at, at + size));
      }
      expect(linesOf(chunks)).toEqual(lines);
    },
  );

  it('without an end of a line is cut, and no more of it is kept than a line', () => {
    const lines = linesOf(Array.from({ length: 1000 }, () => Buffer.alloc(1000, 'x')));
    expect(lines.every((line) => line.length <= 8192)).toBe(true);
    expect(lines.join('')).toBe('x'.repeat(1_000_000));
  });
});
