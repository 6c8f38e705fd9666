import { expect, it } from 'vitest';
import { jsonComplaints, MAY_PARSE } from '../../tools/check-json.mjs';

const complaints = (file: string, source: string, mayParse = {}) => jsonComplaints(new Map([[file, source]]), mayParse);

it.each([
  'const a = JSON.parse(text);',
  'const a = texts.map(JSON.parse);',
  "const a = JSON['parse'](text);",
  'const { parse } = JSON;',
])('a file that is not listed may not parse: %s', (source) => {
  expect(complaints('src/a.ts', `// What it is.\n${source}\n`)).toEqual([
    expect.stringContaining('src/a.ts:2 calls JSON.parse'),
  ]);
});

it.each([
  ['src/a.ts', 'JSON.stringify(a); // JSON.parse'],
  ['src/a.ts', "const a = 'JSON.parse(b)';"],
  ['test/a.ts', 'JSON.parse(a)'],
])('%s may have %s', (file, source) => {
  expect(complaints(file, source)).toEqual([]);
});

it('a listed file may, and must: the list does not outlive its reasons', () => {
  expect(complaints('src/a.ts', 'JSON.parse(a)', { 'src/a.ts': 'a reason' })).toEqual([]);
  expect(complaints('src/a.ts', 'f(a)', { 'src/a.ts': 'a reason' })).toEqual([expect.stringContaining('remove it')]);
});

it('no file of the HTTP and gRPC servers is listed', () => {
  expect(Object.keys(MAY_PARSE).filter((file) => file.startsWith('src/gateway/api/'))).toEqual([]);
});
