import { expect, it } from 'vitest';
import { type Block, Blocks } from '../../src/page/markdown/blocks.js';
import { MARK, withMarks } from '../../src/page/markdown/marks.js';

const textOf = (blocks: readonly Block[]) => blocks.map(({ token }) => token.raw).join('');
const kinds = (text: string) => new Blocks().read(text).map(({ token }) => token.type);

const ANSWER = `# Title

A paragraph with **bold**, \`code\` and a [link](https://example.com).

- one
- two
  - nested

| a | b |
| - | - |
| 1 | 2 |

\`\`\`python
def f():
    return 1
\`\`\`

Last words.`;

it('has the blocks of Markdown', () => {
  const types = kinds(ANSWER).filter((type) => type !== 'space');
  expect(types).toEqual(['heading', 'paragraph', 'list', 'table', 'code', 'paragraph']);
});

it.each([1, 3, 7, 50])('keeps every character while a text grows by %i', (step) => {
  const blocks = new Blocks();
  for (let i = 0; i <= ANSWER.length; i += step) {
    const text = ANSWER.slice(0, i);
    // The lexer has its own white space at the end of an item that is empty so far.
    expect(textOf(blocks.read(text)).trimEnd()).toBe(text.trimEnd());
  }
  expect(textOf(blocks.read(ANSWER))).toBe(ANSWER);
});

it('does not make finished blocks anew while a text grows', () => {
  const blocks = new Blocks();
  const [before] = blocks.read(ANSWER.slice(0, 110));
  const [after] = blocks.read(ANSWER);
  expect(before?.token.type).toBe('heading');
  expect(after).toBe(before);
});

it('reads another text from its beginning', () => {
  const blocks = new Blocks();
  blocks.read(ANSWER);
  expect(blocks.read('# Other').map(({ token }) => token.raw)).toEqual(['# Other']);
});

it('shows code before its end has come, and nothing of it as Markdown', () => {
  const [block, ...others] = new Blocks().read('```js\n# no heading\n- no list');
  expect(others).toEqual([]);
  expect(block?.token).toMatchObject({ type: 'code', lang: 'js', text: '# no heading\n- no list', isOpen: true });
});

it('freezes the beginning of a long list', () => {
  const blocks = new Blocks();
  const list = Array.from({ length: 40 }, (_, i) => `${i + 1}. item ${i}\n`).join('');
  const [first] = blocks.read(list);
  expect(blocks.read(`${list}41. more\n`)[0]).toBe(first);
  expect(textOf(blocks.read(list))).toBe(list);
});

it('shows a line of 1 MB as plain text in pieces, and continues with Markdown', () => {
  const text = `${'x'.repeat(1 << 20)}\n\n# Title\n`;
  const read = new Blocks().read(text);
  expect(textOf(read)).toBe(text);
  expect(read.length).toBeGreaterThan(200);
  expect(Math.max(...read.map(({ token }) => token.raw.length))).toBeLessThan(12_001);
});

it('reads a long text at once as it reads it while it grows', () => {
  const text = `${ANSWER}\n\n`.repeat(150);
  expect(text.length).toBeGreaterThan(20_000);
  const growing = new Blocks();
  for (let i = 0; i < text.length; i += 97) growing.read(text.slice(0, i));
  const atOnce = new Blocks().read(text);
  expect(atOnce.some(({ token }) => token.type === 'plain')).toBe(false);
  // Which of two blocks has the line end between them is the lexer's choice.
  const contents = (blocks: readonly Block[]) =>
    blocks.filter(({ token }) => token.type !== 'space').map(({ token }) => [token.type, token.raw.trimEnd()]);
  expect(contents(growing.read(text))).toEqual(contents(atOnce));
});

it('reads the blocks around one that is nested too deeply', () => {
  const text = `# One\n\n${'>'.repeat(9000)} deep\n\n# Two\n`;
  expect(textOf(new Blocks().read(text))).toBe(text);
  expect(kinds(text).filter((kind) => kind === 'heading')).toHaveLength(2);
});

it('has text for HTML', () => {
  expect(kinds('<script>alert(1)</script>')).toEqual(['html']);
});

it.each([
  ['quotes', '>'.repeat(10_000)],
  ['brackets', '['.repeat(10_000)],
  ['stars', '*a '.repeat(3000)],
  ['underscores', '_'.repeat(10_000)],
  ['backticks', '` `` '.repeat(2000)],
  ['links', '[a]('.repeat(2500)],
  ['tables', `|${'a|'.repeat(2000)}\n|${'-|'.repeat(2000)}\n`],
  ['nested lists', Array.from({ length: 100 }, (_, i) => `${' '.repeat(2 * i)}- a\n`).join('')],
  ['ampersands', '&'.repeat(10_000)],
  ['addresses', 'http://a.b '.repeat(1000)],
])('reads hostile %s', (_, text) => {
  expect(textOf(new Blocks().read(text))).toBe(text);
});

it('finds the marks of each block', () => {
  const marked = withMarks('one two\n\nthree', [3, 12]);
  const blocks = new Blocks().read(marked).filter(({ token }) => token.type !== 'space');
  expect(blocks.map(({ firstMark, marks }) => [firstMark, marks])).toEqual([
    [0, 1],
    [1, 1],
  ]);
  expect(marked).toBe(`one${MARK} two\n\nthr${MARK}ee`);
});
