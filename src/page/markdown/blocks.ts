import { marked, type Token, type Tokens } from 'marked';
import { marksIn } from './marks.js';

/** A text that is too long to be read as Markdown in one frame, or code: shown as it is. */
export interface PlainToken {
  readonly type: 'plain';
  readonly raw: string;
  readonly text: string;
}

/** A code block; open while its end has not come. */
export interface CodeToken {
  readonly type: 'code';
  readonly raw: string;
  readonly text: string;
  readonly lang: string;
  readonly isOpen: boolean;
}

export type BlockToken = PlainToken | CodeToken | Exclude<Token, Tokens.Code>;

/** A block of a text. Blocks that do not change any more are the same object in every update. */
export interface Block {
  readonly key: number;
  readonly token: BlockToken;
  /** Number of marks before it, and in it. */
  readonly firstMark: number;
  readonly marks: number;
}

/** Characters that are read as Markdown at once; a longer block is plain text. */
const MOST_CHARACTERS = 12_000;
/** Characters of a plain block: a browser lays out one long line in a time that grows faster than its length. */
const PLAIN_CHARACTERS = 4000;
/** Code blocks without anything between them that are read in one turn. */
const MOST_CODE_BLOCKS = 100;
/** Items of a list from which on the first ones become a list of their own. */
const MOST_ITEMS = 12;

/**
 * Reads a growing text as Markdown. Only the last block is read again when more text comes, so that the cost of an update
 * does not grow with the answer.
 */
export class Blocks {
  /** Blocks that do not change any more, and their text. */
  private frozen: Block[] = [];
  private frozenText = '';
  private marksBefore = 0;

  /** The blocks of a text. */
  read(text: string): readonly Block[] {
    const source = text.replace(/\r\n?/g, '\n');
    if (!source.startsWith(this.frozenText)) this.reset();
    for (;;) {
      const rest = source.slice(this.frozenText.length);
      const done = finishedTokens(rest);
      if (done.length === 0) return [...this.frozen, ...this.openBlocks(rest)];
      for (const token of done) this.freeze(token);
    }
  }

  private openBlocks(text: string): readonly Block[] {
    let { marksBefore } = this;
    return tokensOf(text).map((token, i) => {
      const block = blockOf(token, this.frozen.length + i, marksBefore);
      marksBefore += block.marks;
      return block;
    });
  }

  private freeze(token: BlockToken): void {
    const block = blockOf(token, this.frozen.length, this.marksBefore);
    this.frozen.push(block);
    this.frozenText += token.raw;
    this.marksBefore += block.marks;
  }

  private reset(): void {
    this.frozen = [];
    this.frozenText = '';
    this.marksBefore = 0;
  }
}

const blockOf = (token: BlockToken, key: number, firstMark: number): Block => ({
  ...{ key, token, firstMark },
  marks: marksIn(token.raw),
});

/**
 * The blocks at the beginning of a text that nothing behind it can change: those before the last block of its complete lines. The
 * last line may become anything.
 */
function finishedTokens(text: string): readonly BlockToken[] {
  const lines = text.length > MOST_CHARACTERS ? text : text.slice(0, text.lastIndexOf('\n') + 1);
  const tokens = lines === '' ? [] : tokensOf(lines);
  const done = withoutLast(tokens);
  // A text that the lexer has changed cannot be found again.
  return text.startsWith(done.map(({ raw }) => raw).join('')) ? done : [];
}

function withoutLast(tokens: readonly BlockToken[]): readonly BlockToken[] {
  const last = tokens.findLastIndex(({ type }) => type !== 'space');
  return tokens.slice(0, Math.max(0, last));
}

function tokensOf(text: string): readonly BlockToken[] {
  const tokens: BlockToken[] = [];
  let rest = text;
  // A loop, and a limit for one turn: an answer may be nothing but thousands of code blocks.
  for (let code = codeOf(rest); code !== undefined; code = codeOf(rest)) {
    tokens.push(code);
    rest = rest.slice(code.raw.length);
    if (tokens.length === MOST_CODE_BLOCKS && rest !== '') return [...tokens, plain(rest)];
  }
  if (rest === '') return tokens;
  return [...tokens, ...(rest.length > MOST_CHARACTERS ? tokensOfLong(rest) : lexed(rest))];
}

/** The first blocks of a text that is too long to be read at once, and the rest as one block, which is read again. */
function tokensOfLong(text: string): readonly BlockToken[] {
  const end = text.lastIndexOf('\n\n', MOST_CHARACTERS - 2);
  const first = end < 0 ? [] : withoutLast(lexed(text.slice(0, end + 2)));
  const raw = first.map((token) => token.raw).join('');
  if (raw !== '' && text.startsWith(raw)) return [...first, plain(text.slice(raw.length))];
  const cut = cutOf(text);
  return [plain(text.slice(0, cut)), plain(text.slice(cut))];
}

function lexed(text: string): readonly BlockToken[] {
  try {
    return splitList(marked.lexer(text, { gfm: true, breaks: false }).map(withCode));
  } catch {
    // A block is nested too deeply for the lexer: the others are still read.
    const paragraph = text.search(/\S[ \t]*\n\n/);
    const end = paragraph < 0 ? text.length : text.indexOf('\n\n', paragraph) + 2;
    if (end >= text.length) return [plain(text)];
    return [...lexed(text.slice(0, end)), plain(text.slice(end))];
  }
}

const plain = (text: string): PlainToken => ({ type: 'plain', raw: text, text });

/** The end of the first piece of a long text: a line's end, else a space, else anywhere but within a character. */
function cutOf(text: string): number {
  for (const separator of ['\n', ' ']) {
    const at = text.lastIndexOf(separator, PLAIN_CHARACTERS);
    if (at > PLAIN_CHARACTERS / 2) return at + 1;
  }
  return /[\uD800-\uDBFF]/.test(text[PLAIN_CHARACTERS - 1] ?? '') ? PLAIN_CHARACTERS - 1 : PLAIN_CHARACTERS;
}

/** A text in pieces that a browser lays out quickly. */
export function piecesOf(text: string): readonly string[] {
  const pieces: string[] = [];
  let rest = text;
  while (rest.length > 2 * PLAIN_CHARACTERS) {
    const cut = cutOf(rest);
    pieces.push(rest.slice(0, cut));
    rest = rest.slice(cut);
  }
  return [...pieces, rest];
}

const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^\n]*)(?:\n|$)/;

/** The fenced code block at the beginning of a text, found without a lexer: it may be as long as an answer. */
function codeOf(text: string): CodeToken | undefined {
  const opening = FENCE.exec(text);
  if (opening === null) return undefined;
  const [head, fence = '', info = ''] = opening;
  if (fence.startsWith('`') && info.includes('`')) return undefined;
  const closing = new RegExp(`^ {0,3}${fence[0]}{${fence.length},}[ \\t]*$`, 'm');
  const body = text.slice(head.length);
  const end = closing.exec(body);
  const lang = info.trim().split(/\s/)[0] ?? '';
  if (end === null) return { type: 'code', raw: text, text: body, lang, isOpen: true };
  const raw = head + body.slice(0, end.index) + end[0] + (body[end.index + end[0].length] ?? '');
  return { type: 'code', raw, text: body.slice(0, end.index).replace(/\n$/, ''), lang, isOpen: false };
}

function withCode(token: Token): BlockToken {
  if (token.type !== 'code') return token as BlockToken;
  const { raw, text, lang = '', codeBlockStyle } = token as Tokens.Code;
  // Within the last line the fence's end may still come.
  const isOpen = codeBlockStyle !== 'indented' && codeOf(raw)?.isOpen === true;
  return { type: 'code', raw, text, lang: lang.split(/\s/)[0] ?? '', isOpen };
}

/** A long list at the end of the text as two: only the last items may still change. */
function splitList(tokens: readonly BlockToken[]): readonly BlockToken[] {
  const list = tokens.at(-1);
  if (list?.type !== 'list') return tokens;
  const { items, raw, start } = list as Tokens.List;
  if (items.length < MOST_ITEMS) return tokens;
  const first = items.slice(0, -2);
  const firstRaw = first.map((item) => item.raw).join('');
  if (!raw.startsWith(firstRaw)) return tokens;
  const parts = [
    { ...list, items: first, raw: firstRaw },
    {
      ...list,
      items: items.slice(-2),
      raw: raw.slice(firstRaw.length),
      start: start === '' ? start : start + first.length,
    },
  ];
  return [...tokens.slice(0, -1), ...(parts as BlockToken[])];
}
