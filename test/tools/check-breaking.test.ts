import { cpSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import { packageRoot } from '../../src/shared/package.js';
import { breakingComplaints } from '../../tools/check-breaking.mjs';

const PUBLIC = path.join('proto', 'rocmforge', 'v1', 'inference.proto');
const EXECUTOR = path.join('proto', 'rocmforge', 'executor', 'v1', 'executor.proto');

/** The complaints about the protos with one text of one file replaced. */
function complaintsAfter(file: string, text: string | RegExp, replacement: string): string[] {
  const root = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  for (const name of ['proto', 'protocols', 'buf.yaml'])
    cpSync(path.join(packageRoot, name), path.join(root, name), { recursive: true });
  const source = readFileSync(path.join(root, file), 'utf8');
  const changed = source.replace(text, replacement);
  expect(changed).not.toBe(source);
  writeFileSync(path.join(root, file), changed);
  return breakingComplaints(root);
}

it('the public API breaks no release', () => {
  expect(breakingComplaints(packageRoot)).toEqual([]);
});

it.each([
  ['a field that is removed', /^ {2}uint32 cached_tokens = 2;$/m, '', 'cached_tokens'],
  ['a field of another type', 'uint32 cached_tokens = 2;', 'string cached_tokens = 2;', 'cached_tokens'],
  ['a field of another number', 'uint32 cached_tokens = 2;', 'uint32 cached_tokens = 20;', 'cached_tokens'],
  ['a method that is removed', /^ {2}rpc Tokenize\(.*$/m, '', 'Tokenize'],
])('%s breaks the first release', (_what, text, replacement, named) => {
  const [complaint, ...others] = complaintsAfter(PUBLIC, text, replacement);
  expect(complaint).toContain('the public API breaks clients of v0.1.0.binpb');
  expect(complaint).toContain(named);
  expect(others).toEqual([]);
});

it('a field that is added breaks none', () => {
  const added = 'uint32 cached_tokens = 2;\n  // More.\n  uint32 more = 2000;';
  expect(complaintsAfter(PUBLIC, 'uint32 cached_tokens = 2;', added)).toEqual([]);
});

it('the executor’s protocol may change: both ends are of one release', () => {
  expect(complaintsAfter(EXECUTOR, /^ {2}uint32 pid = 2;$/m, '')).toEqual([]);
});
