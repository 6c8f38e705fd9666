import { expect, it } from 'vitest';
import { MARK, partsOf, withMarks, withoutMarks } from '../../src/page/markdown/marks.js';

it.each([
  ['within words', 'the fox', 5, `the f${MARK}ox`],
  ['before emphasis that begins', 'the **fox**', 6, `the ${MARK}**fox**`],
  ['before a heading', 'one\n\n## Two', 8, `one\n${MARK}\n## Two`],
  ['before the number of an item', 'a\n1. one', 4, `a${MARK}\n1. one`],
  ['at the beginning', '# Title', 0, `${MARK}# Title`],
  ['not within a character', 'a😀b', 2, `a${MARK}😀b`],
])('a mark is placed %s', (_, text, at, expected) => {
  const marked = withMarks(text, [at]);
  expect(marked).toBe(expected);
  expect(withoutMarks(marked)).toBe(text);
});

it('a text has no marks of its own', () => {
  expect(withMarks(`a${MARK}b`, [])).toBe('a\uFFFDb');
});

it('marks stay in order', () => {
  expect(withMarks('abc', [1, 1, 3])).toBe(`a${MARK}${MARK}bc${MARK}`);
});

it('control characters that reorder text are named', () => {
  expect(partsOf('a\u202Eb\u2067c\u0000')).toEqual([
    { kind: 'text', text: 'a' },
    { kind: 'control', text: 'U+202E' },
    { kind: 'text', text: 'b' },
    { kind: 'control', text: 'U+2067' },
    { kind: 'text', text: 'c' },
    { kind: 'control', text: 'U+0000' },
  ]);
});
