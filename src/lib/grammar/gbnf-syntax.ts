import { type CodePointSet, complement, ofRanges } from './code-points.js';
import { characters, choiceOf, type Expression, IMPOSSIBLE, repeat, rule, sequenceOf, text } from './grammar.js';
import { CONSTRAINT_LIMITS } from './limits.js';
import { invalid, unsupported } from './refusal.js';

/** The rules of a grammar in GBNF, and where each name was used first. */
export interface GbnfRules {
  readonly rules: ReadonlyMap<string, Expression>;
  readonly uses: ReadonlyMap<string, number>;
}

const NAME = /^[A-Za-z0-9-]+/;
const ESCAPES: Readonly<Record<string, number>> = { t: 9, r: 13, n: 10, '\\': 92, '"': 34, '[': 91, ']': 93 };
const HEX_DIGITS: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };

/**
 * Reads GBNF as llama.cpp does (https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md), but for its forms of single
 * tokens.
 *
 * @throws GrammarError `CONSTRAINT_INVALID` or `CONSTRAINT_UNSUPPORTED`, with line and column
 */
export function parseGbnf(source: string): GbnfRules {
  return new GbnfParser(source).parse();
}

/** Line and column of an offset, both from 1. */
export function lineAndColumn(source: string, offset: number): string {
  const before = source.slice(0, offset).split('\n');
  return `line ${before.length}, column ${before.at(-1)!.length + 1}`;
}

class GbnfParser {
  readonly #rules = new Map<string, Expression>();
  readonly #uses = new Map<string, number>();
  #at = 0;
  #depth = 0;

  constructor(readonly source: string) {}

  parse(): GbnfRules {
    this.#space(true);
    while (this.#at < this.source.length) this.#rule();
    return { rules: this.#rules, uses: this.#uses };
  }

  #wrong(keyword: string, sentence: string, offset = this.#at): never {
    throw invalid('grammar', { at: lineAndColumn(this.source, offset), keyword }, sentence);
  }

  #unsupported(keyword: string, sentence: string, offset = this.#at): never {
    throw unsupported('grammar', { at: lineAndColumn(this.source, offset), keyword }, sentence);
  }

  #rule(): void {
    const from = this.#at;
    const name = this.#name();
    if (name === undefined)
      this.#wrong(this.#here(), `${JSON.stringify(this.#here())} is where a rule's name should be`);
    this.#space(false);
    if (!this.#take('::=')) this.#wrong(name, `after the name ${name}, ::= is missing`);
    this.#space(true);
    if (this.#rules.has(name)) this.#wrong(name, `the rule ${name} is defined twice; keep one`, from);
    this.#rules.set(name, IMPOSSIBLE);
    this.#rules.set(name, this.#alternatives(false));
    if (this.#at < this.source.length && !/[\r\n]/.test(this.source[this.#at]!)) {
      this.#wrong(this.#here(), `${JSON.stringify(this.#here())} is where the rule ${name} should end`);
    }
    this.#space(true);
  }

  #alternatives(isNested: boolean): Expression {
    if (++this.#depth > CONSTRAINT_LIMITS.nesting) {
      this.#unsupported(
        '(',
        `groups lie deeper in one another than ${CONSTRAINT_LIMITS.nesting}; give inner ones names`,
      );
    }
    const options = [this.#sequence(isNested)];
    while (this.#take('|')) {
      this.#space(true);
      options.push(this.#sequence(isNested));
    }
    this.#depth--;
    return choiceOf(options);
  }

  #sequence(isNested: boolean): Expression {
    const parts: Expression[] = [];
    for (;;) {
      const part = this.#element();
      if (part === undefined) return sequenceOf(parts);
      parts.push(this.#quantified(part));
      this.#space(isNested);
    }
  }

  #element(): Expression | undefined {
    const from = this.#at;
    if (this.#take('"')) return this.#literal(from);
    if (this.#take('[')) return characters(this.#class(from));
    if (this.#take('.')) return characters(complement([]));
    if (this.#take('(')) {
      this.#space(true);
      const inner = this.#alternatives(true);
      if (!this.#take(')')) this.#wrong('(', 'a group is never closed', from);
      return inner;
    }
    if (this.#take('<') || this.#take('!')) {
      this.#unsupported('<', 'single tokens cannot be named here; write their text', from);
    }
    const name = this.#name();
    if (name === undefined) return undefined;
    if (!this.#uses.has(name)) this.#uses.set(name, from);
    return rule(name);
  }

  #quantified(part: Expression): Expression {
    let what = part;
    for (;;) {
      const from = this.#at;
      if (this.#take('*')) what = repeat(what, 0, Number.POSITIVE_INFINITY);
      else if (this.#take('+')) what = repeat(what, 1, Number.POSITIVE_INFINITY);
      else if (this.#take('?')) what = repeat(what, 0, 1);
      else if (this.#take('{')) {
        const counts = /^\s*(\d+)\s*(?:(,)\s*(\d*)\s*)?\}/.exec(this.source.slice(this.#at, this.#at + 64));
        if (counts === null) this.#wrong('{', 'a count must be {m}, {m,} or {m,n}', from);
        this.#at += counts[0].length;
        const min = Number(counts[1]);
        const max = counts[2] === undefined ? min : counts[3] === '' ? Number.POSITIVE_INFINITY : Number(counts[3]);
        const largest = Number.isFinite(max) ? Math.max(min, max) : min;
        if (largest > CONSTRAINT_LIMITS.repetitions) {
          this.#unsupported('{', `a count is more than ${CONSTRAINT_LIMITS.repetitions}; ask for less`, from);
        }
        if (max < min) this.#wrong('{', 'a count is a range out of order', from);
        what = repeat(what, min, max);
      } else return what;
    }
  }

  #literal(from: number): Expression {
    let literal = '';
    while (!this.#take('"')) literal += String.fromCodePoint(this.#character('"', from));
    return text(literal);
  }

  #class(from: number): CodePointSet {
    const isNegated = this.#take('^');
    const ranges: [number, number][] = [];
    while (!this.#take(']')) {
      const first = this.#character('[', from);
      const isRange = this.source[this.#at] === '-' && this.source[this.#at + 1] !== ']';
      if (isRange) this.#at++;
      const last = isRange ? this.#character('[', from) : first;
      if (last < first) this.#wrong('[', 'a class has a range out of order', from);
      ranges.push([first, last]);
    }
    const set = isNegated ? complement(ofRanges(ranges)) : complement(complement(ofRanges(ranges)));
    if (set.length === 0) this.#wrong('[', 'a class has no characters, so nothing matches it', from);
    return set;
  }

  #character(within: string, from: number): number {
    const codePoint = this.source.codePointAt(this.#at);
    if (codePoint === undefined || codePoint === 10) this.#wrong(within, `${within} is never closed`, from);
    const start = this.#at;
    this.#at += codePoint > 0xffff ? 2 : 1;
    if (codePoint !== 92) return this.#scalar(codePoint, start);
    const letter = this.source[this.#at] ?? '';
    this.#at++;
    if (Object.hasOwn(ESCAPES, letter)) return ESCAPES[letter]!;
    const length = Object.hasOwn(HEX_DIGITS, letter) ? HEX_DIGITS[letter]! : 0;
    const digits = this.source.slice(this.#at, this.#at + length);
    if (length === 0 || !new RegExp(`^[0-9A-Fa-f]{${length}}$`).test(digits)) {
      this.#wrong(`\\${letter}`, `${JSON.stringify(`\\${letter}`)} is not an escape of GBNF`, start);
    }
    this.#at += length;
    return this.#scalar(Number.parseInt(digits, 16), start);
  }

  #scalar(codePoint: number, start: number): number {
    const isSurrogate = codePoint >= 0xd800 && codePoint <= 0xdfff;
    if (isSurrogate || codePoint > 0x10ffff) this.#wrong('\\u', 'this is not a character of Unicode', start);
    return codePoint;
  }

  #name(): string | undefined {
    const found = NAME.exec(this.source.slice(this.#at, this.#at + 256))?.[0];
    if (found !== undefined) this.#at += found.length;
    return found;
  }

  /** The character here, for messages. */
  #here(): string {
    return String.fromCodePoint(this.source.codePointAt(this.#at) ?? 32);
  }

  #take(token: string): boolean {
    if (!this.source.startsWith(token, this.#at)) return false;
    this.#at += token.length;
    return true;
  }

  /** Spaces, comments, and line breaks where a rule may go on behind them. */
  #space(mayBreak: boolean): void {
    const form = mayBreak ? /(?:[ \t\r\n]|#[^\r\n]*)*/y : /(?:[ \t]|#[^\r\n]*)*/y;
    form.lastIndex = this.#at;
    this.#at += form.exec(this.source)![0].length;
  }
}
