import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { packageRoot } from '../../src/shared/package.js';
import { docsComplaints } from '../../tools/check-docs.mjs';

const root = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-docs-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
mkdirSync(path.join(root, 'docs', 'evidence'), { recursive: true });
mkdirSync(path.join(root, 'examples'));
for (const name of ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'CHANGELOG.md', 'examples/README.md'])
  writeFileSync(path.join(root, name), '');
writeFileSync(path.join(root, 'docs', 'other.md'), '# A `page`, with marks\n');

/** Complaints about a guide, or about a page of evidence. */
function complaints(text: string, file = 'docs/guide.md'): string[] {
  writeFileSync(path.join(root, file), text);
  const found = docsComplaints(root);
  rmSync(path.join(root, file));
  return found;
}

it.each([
  ['a link to a page', '[page](other.md)'],
  ['a link to a heading', '[page](other.md#a-page-with-marks)'],
  ['a link to a heading of the same page', '## Here\n\n[above](#here)'],
  ['a link to a site', '[site](https://example.org/x.md#y)'],
  ['a bar in a cell, escaped', '| a | b |\n| --- | --- |\n| `x\\|y` | z |'],
  ['a date in a block of code', '```\n2026-01-01 `1234abcd`\n```'],
  ['a path that exists', 'See `docs/other.md`.'],
])('accepts %s', (_, text) => {
  expect(complaints(text)).toEqual([]);
});

it.each([
  ['a link to no file', '[page](missing.md)', 'leads to no file'],
  ['a link to no heading', '[page](other.md#missing)', 'has no heading'],
  ['a path that does not exist', 'See `src/missing.ts`.', 'there is no src/missing.ts'],
  ['an open fence', '```\ncode\n', 'not closed'],
  ['a bar in a cell', '| a | b |\n| --- | --- |\n| `x|y` | z |', 'other columns'],
  ['a date', 'Measured on 2026-01-01.', '2026-01-01 belongs in docs/evidence'],
  ['a date in words', 'Measured on 3 May 2026.', '3 May 2026 belongs'],
  ['a commit', 'At `1234abcd`.', '`1234abcd` belongs'],
])('finds %s', (_, text, complaint) => {
  expect(complaints(text)).toEqual([expect.stringContaining(complaint)]);
});

it('accepts dates, commits and former paths in evidence', () => {
  expect(complaints('On 2026-01-01, `1234abcd`, `src/former.ts`.', 'docs/evidence/results.md')).toEqual([]);
});

it('finds nothing in this tree', () => {
  expect(docsComplaints(packageRoot)).toEqual([]);
});
