import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { isSameSecret, readSecret } from '../../src/shared/secret.js';

const SECRET = `${'s'.repeat(31)}é`;

describe('a secret', () => {
  it('is the same as itself', () => {
    expect(isSameSecret(SECRET, `${SECRET}`)).toBe(true);
  });

  it.each([
    ['a beginning of it', SECRET.slice(0, 8)],
    ['its end', SECRET.slice(8)],
    ['nothing', ''],
    ['more than it', `${SECRET}s`],
    ['another of its length', SECRET.replace('s', 't')],
    ['another case', SECRET.toUpperCase()],
    ['another form of its letters', SECRET.normalize('NFD')],
  ])('is not %s, whichever is told', (_what, other) => {
    expect([isSameSecret(SECRET, other), isSameSecret(other, SECRET)]).toEqual([false, false]);
  });
});

it('the line break at the end of a file is not part of its secret', () => {
  const file = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'secret');
  const secret = 's'.repeat(32);
  for (const end of ['', '\n', '\r\n']) {
    writeFileSync(file, `${secret}${end}`);
    expect(readSecret({ option: 'secret-file', path: file })).toBe(secret);
  }
  writeFileSync(file, `${secret}\r\n\r\n`);
  expect(() => readSecret({ option: 'secret-file', path: file })).toThrow('holds no secret');
});
