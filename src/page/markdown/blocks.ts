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
    let rest = source.slice(this.frozenText.length);
    for (;;) {
      const tokens = tokensOf(rest);
      const done = tokens.slice(0, -1);
      // What the lexer has changed cannot be found again in the text.
      if (done.length === 0 || !rest.startsWith(done.map(({ raw }) => raw).join(''))) {
        let { marksBefore } = this;
        const open = tokens.map((token, i) => {
          const block = blockOf(token, this.frozen.length + i, marksBefore);
          marksBefore += block.marks;
          return block;
        });
        return [...this.frozen, ...open];
      }
      for (const token of done) this.freeze(token);
      rest = source.slice(this.frozenText.length);
    }
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

function tokensOf(text: string): readonly BlockToken[] {
  const code = codeOf(text);
  if (code !== undefined) {
    const rest = text.slice(code.raw.length);
    return rest === '' ? [code] : [code, plain(rest)];
  }
  if (text.length > MOST_CHARACTERS) {
    const cut = cutOf(text);
    return [plain(text.slice(0, cut)), plain(text.slice(cut))];
  }
  try {
    return splitList(marked.lexer(text, { gfm: true, breaks: false }).map(withCode));
  } catch {
    // Nested too deeply for the lexer.
    return [plain(text)];
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
