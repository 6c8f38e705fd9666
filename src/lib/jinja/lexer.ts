import { fail } from './errors.js';
import { strip } from './text.js';

export type TokenKind =
  | 'data'
  | 'blockBegin'
  | 'blockEnd'
  | 'variableBegin'
  | 'variableEnd'
  | 'name'
  | 'string'
  | 'integer'
  | 'float'
  | 'operator'
  | 'end';

export interface Token {
  readonly kind: TokenKind;
  readonly text: string;
  readonly line: number;
}

/** A tag that opens: `raw` counts as one, because nothing inside of it is a tag. */
const OPENING = /\{%([-+]?)\s*raw\s*(?:-%\}\s*|%\})|\{([{%#])([-+]?)/g;
const END_OF_RAW = /\{%([-+]?)\s*endraw\s*(?:\+%\}|-%\}\s*|%\}\n?)/g;
const END_OF_COMMENT = /\+#\}|-#\}\s*|#\}\n?/g;
const END_OF_BLOCK = /\+%\}|-%\}\s*|%\}\n?/y;
const END_OF_VARIABLE = /-\}\}\s*|\}\}/y;

const SPACE = /\s+/y;
const FLOAT = /(?<!\.)(?:\d+_)*\d+(?:(?:\.(?:\d+_)*\d+)?e[+-]?(?:\d+_)*\d+|\.(?:\d+_)*\d+)/iy;
const INTEGER = /0b(?:_?[01])+|0o(?:_?[0-7])+|0x(?:_?[\da-f])+|[1-9](?:_?\d)*|0(?:_?0)*/iy;
const NAME = /[\p{L}\p{Nl}_][\p{L}\p{Nl}\p{Nd}\p{M}_]*/uy;
const STRING = /'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"/sy;
const LITERALS: readonly (readonly [TokenKind, RegExp])[] = [
  ['float', FLOAT],
  ['integer', INTEGER],
  ['name', NAME],
  ['string', STRING],
];
const OPERATOR = /\/\/|\*\*|==|!=|>=|<=|[-+/*%~[\](){}><=.:|,;]/y;

const CLOSING: Readonly<Record<string, string>> = { '(': ')', '[': ']', '{': '}' };

/**
 * The tokens of a template with the settings that `transformers` uses: a newline behind a block tag is not a text
 * (`trim_blocks`), nor is white space between the start of a line and a block tag (`lstrip_blocks`).
 *
 * @throws TemplateError
 */
export function tokenize(template: string): Token[] {
  return new Lexer(template).run();
}

class Lexer {
  private readonly source: string;
  private readonly tokens: Token[] = [];
  private at = 0;
  private line = 1;
  private countedTo = 0;
  /** True if what stands at `at` is the first of a line. */
  private startsLine = true;

  constructor(template: string) {
    this.source = template.replace(/\r\n?/g, '\n').replace(/\n$/, '');
  }

  run(): Token[] {
    while (this.at < this.source.length) this.readDataAndTag();
    this.push('end', '');
    return this.tokens;
  }

  private readDataAndTag(): void {
    OPENING.lastIndex = this.at;
    const opening = OPENING.exec(this.source);
    if (opening === null) {
      this.push('data', this.source.slice(this.at));
      this.at = this.source.length;
      return;
    }
    const [tag, rawSign, kind, sign] = opening;
    const isVariable = kind === '{';
    this.pushData(this.source.slice(this.at, opening.index), sign ?? rawSign ?? '', !isVariable);
    this.advance(opening.index + tag.length);
    if (kind === undefined) this.readRaw();
    else if (kind === '#') this.readComment();
    else this.readTag(isVariable);
  }

  private readRaw(): void {
    const end = this.find(END_OF_RAW, 'a raw block has no end');
    this.pushData(this.source.slice(this.at, end.index), end[1]!, true);
    this.advance(end.index + end[0].length);
  }

  private readComment(): void {
    const end = this.find(END_OF_COMMENT, 'a comment has no end');
    this.advance(end.index + end[0].length);
  }

  private readTag(isVariable: boolean): void {
    const [begin, end, pattern] = isVariable
      ? (['variableBegin', 'variableEnd', END_OF_VARIABLE] as const)
      : (['blockBegin', 'blockEnd', END_OF_BLOCK] as const);
    this.push(begin, '');
    const open: string[] = [];
    for (;;) {
      const space = this.match(SPACE);
      if (space !== undefined) this.advance(this.at + space.length);
      // Inside of brackets `}}` closes two of them.
      const closing = open.length === 0 ? this.match(pattern) : undefined;
      if (closing !== undefined) {
        this.push(end, '');
        this.advance(this.at + closing.length);
        return;
      }
      this.readToken(open);
    }
  }

  private readToken(open: string[]): void {
    for (const [kind, pattern] of LITERALS) {
      const literal = this.match(pattern);
      if (literal === undefined) continue;
      this.push(kind, kind === 'string' ? readEscapes(literal.slice(1, -1)) : literal);
      this.advance(this.at + literal.length);
      return;
    }
    const operator = this.match(OPERATOR) ?? this.failAtToken();
    if (operator in CLOSING) open.push(CLOSING[operator]!);
    else if (')]}'.includes(operator) && open.pop() !== operator) fail(`line ${this.line}: unexpected "${operator}"`);
    this.push('operator', operator);
    this.advance(this.at + operator.length);
  }

  private failAtToken(): never {
    const found = this.source.slice(this.at, this.at + 1);
    return fail(found === '' ? `line ${this.line}: a tag has no end` : `line ${this.line}: unexpected "${found}"`);
  }

  private pushData(text: string, sign: string, isBlock: boolean): void {
    let data = text;
    if (sign === '-') data = strip(text, 'right');
    else if (sign === '' && isBlock) {
      const lineStart = text.lastIndexOf('\n') + 1;
      if ((lineStart > 0 || this.startsLine) && /^\s+$/.test(text.slice(lineStart))) data = text.slice(0, lineStart);
    }
    if (data !== '') this.push('data', data);
  }

  private push(kind: TokenKind, text: string): void {
    this.tokens.push({ kind, text, line: this.line });
  }

  private advance(to: number): void {
    for (let at = this.countedTo; at < to; at++) if (this.source[at] === '\n') this.line++;
    this.countedTo = to;
    this.at = to;
    this.startsLine = this.source[to - 1] === '\n';
  }

  private match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at;
    return pattern.exec(this.source)?.[0];
  }

  private find(pattern: RegExp, problem: string): RegExpExecArray {
    pattern.lastIndex = this.at;
    return pattern.exec(this.source) ?? fail(`line ${this.line}: ${problem}`);
  }
}

const SIMPLE_ESCAPES: Readonly<Record<string, string>> = {
  ...{ '\n': '', '\\': '\\', "'": "'", '"': '"' },
  ...{ a: '\x07', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' },
};

/** Python's escapes; one it does not know stays as it is. */
function readEscapes(text: string): string {
  return text.replace(
    /\\(?:([\n\\'"abfnrtv])|x([\da-fA-F]{2})|u([\da-fA-F]{4})|U([\da-fA-F]{8})|([0-7]{1,3})|([xuUN]))/g,
    (whole, simple?: string, x?: string, u?: string, long?: string, octal?: string, bad?: string) => {
      if (simple !== undefined) return SIMPLE_ESCAPES[simple]!;
      if (octal !== undefined) return String.fromCodePoint(Number.parseInt(octal, 8));
      if (bad !== undefined) return fail(`the escape "${whole}" in a string is not understood`);
      const hex = [x, u, long].find((digits) => digits !== undefined);
      const codePoint = hex === undefined ? Number.NaN : Number.parseInt(hex, 16);
      return codePoint <= 0x10ffff ? String.fromCodePoint(codePoint) : fail(`"${whole}" is not a character`);
    },
  );
}
