import { createHash } from 'node:crypto';
import { expect, it } from 'vitest';
import { BearerTokens, newToken } from '../../../src/gateway/trust/tokens.js';

const hash = (token: string) => createHash('sha256').update(token).digest('hex');
const read = (...lines: string[]) => new BearerTokens('tokens', `${lines.join('\n')}\n`);

it('knows a token by its hash, and no other', () => {
  const tokens = read(`alice sha256:${hash('one')}`, `bob sha256:${hash('two')}`);
  expect(['one', 'two', 'three', '', hash('one')].map((token) => tokens.nameOf(token))).toEqual([
    'alice',
    'bob',
    undefined,
    undefined,
    undefined,
  ]);
});

it('takes several tokens of one name, so that one can be replaced', () => {
  const tokens = read(`alice sha256:${hash('old')}`, `alice sha256:${hash('new')}`);
  expect([tokens.nameOf('old'), tokens.nameOf('new')]).toEqual(['alice', 'alice']);
});

const GOOD = `alice sha256:${hash('one')}`;
it.each([
  ['a comment', '# tokens'],
  ['an empty line', ''],
  ['a token in clear', 'bob hunter2'],
  ['another hash', `bob md5:${'0'.repeat(32)}`],
  ['a hash too short', `bob sha256:${'0'.repeat(63)}`],
  ['a hash in capitals', `bob sha256:${'A'.repeat(64)}`],
  ['more than a hash', `bob sha256:${'0'.repeat(64)} admin`],
  ['no name', `sha256:${'0'.repeat(64)}`],
  ['a name with a colon', `jwt:bob sha256:${'0'.repeat(64)}`],
  ['a carriage return', `bob sha256:${'0'.repeat(64)}\r`],
  ['the hash of another line', `bob sha256:${hash('one')}`],
])('refuses %s, by the number of its line', (_what, line) => {
  expect(() => read(GOOD, line)).toThrow(/^line 2 of tokens /);
});

it('refuses a file of no tokens', () => {
  expect(() => new BearerTokens('tokens', '')).toThrow('tokens holds no token');
  expect(new BearerTokens('tokens', '', true).nameOf('one')).toBeUndefined();
});

it('makes tokens that its file knows, each another one', () => {
  const [first, second] = [newToken('alice'), newToken('alice')];
  expect(first.token).not.toBe(second.token);
  expect(read(first.line, second.line).nameOf(second.token)).toBe('alice');
  expect(() => newToken('a b')).toThrow('"a b" is not a name');
});
