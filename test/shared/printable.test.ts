import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { packageRoot } from '../../src/shared/package.js';
import { printable, printableJson, printableLine } from '../../src/shared/printable.js';
import { runs, seed } from '../support/run-size.js';

/** Characters that a terminal acts on rather than shows: control characters, and those that reorder what stands around them. */
const STEERS = /(?!\n|\t)[\p{Cc}\u202a-\u202e\u2066-\u2069]/u;
/** Texts of which many characters are such. */
const hostile = fc
  .array(
    fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.constantFrom('\x1b[2J', '\x1b]0;t\x07', '\x9b2J', '\u202e', '\r', '\x7f'),
    ),
  )
  .map((parts) => parts.join(''));

describe('a text of foreign origin', () => {
  it('has what would steer a terminal escaped, and nothing else', () => {
    const text = 'a\u001b[31mb\u009b2Jc\u0007\u202ed\r\n\te — “ü” 漢 👩‍🔬';
    expect(printable(text)).toBe('a\\x1b[31mb\\x9b2Jc\\x07\\u202ed\r\n\te — “ü” 漢 👩‍🔬');
    expect(printableLine('a\r\n\tb')).toBe('a\\x0d\\x0a\\x09b');
    expect(printable('a\rb')).toBe('a\\x0db');
  });

  it('steers no terminal, whatever it is', () => {
    fc.assert(
      fc.property(hostile, (text) => {
        expect(printable(text).replaceAll('\r\n', '\n')).not.toMatch(STEERS);
        expect(printableLine(text)).not.toMatch(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/u);
      }),
      { numRuns: runs(500), seed: seed(41) },
    );
  });

  it('is the same JSON, whatever it is', () => {
    fc.assert(
      fc.property(hostile, fc.constantFrom(undefined, 2), (text, indent) => {
        const json = printableJson({ [text]: [text] }, indent);
        expect(json).not.toMatch(STEERS);
        expect(JSON.parse(json)).toEqual({ [text]: [text] });
      }),
      { numRuns: runs(500), seed: seed(41) },
    );
  });
});

it('commands write to the terminal through common/output.ts', () => {
  const folder = path.join(packageRoot, 'src', 'cli');
  const direct = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
    (file) =>
      file.endsWith('.ts') && /process\.std(out|err)\.write\(/.test(readFileSync(path.join(folder, file), 'utf8')),
  );
  // Chat and the load's bar steer the terminal themselves; main.ts imports nothing.
  expect(direct.sort()).toEqual(['chat/chat.ts', 'common/output.ts', 'common/progress.ts', 'main.ts']);
});
