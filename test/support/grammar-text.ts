// One file because it is one dialect: how the library reads sets of characters, and what it must be spared.
import {
  ASCII,
  type CodePointSet,
  complement,
  intersection,
  NOT_ASCII,
  pairs,
} from '../../src/lib/grammar/code-points.js';
import {
  choiceOf,
  type Expression,
  type GrammarRules,
  repeat,
  rule,
  sequenceOf,
  text,
} from '../../src/lib/grammar/grammar.js';
import { SPECIAL_TOKEN_BYTE } from '../../src/lib/grammar/grammar-buffer.js';

/** Rules as `@mlc-ai/web-xgrammar` reads them (its dialect: https://www.w3.org/TR/xml/#sec-notation with {m,n}). */
export function grammarText(rules: GrammarRules): string {
  const lines: string[] = [];
  const added = new Map<string, Expression>();
  const add = (content: Expression): Expression => {
    const name = `alternative-${added.size}`;
    added.set(name, content);
    return rule(name);
  };
  for (const [name, content] of rules)
    lines.push(`${name} ::= ${printed(withSeparateAlternatives(content, add), false)}`);
  for (const [name, content] of added) lines.push(`${name} ::= ${printed(content, false)}`);
  return `${lines.join('\n')}\n`;
}

/** `isTight`: it stands where a choice or a sequence must be put in parentheses. */
function printed(expression: Expression, isTight: boolean): string {
  switch (expression.kind) {
    case 'text':
      return `"${[...expression.text].map(quoted).join('')}"`;
    case 'characters':
      return classes(expression.set, isTight);
    case 'special': {
      const mark = byteClass([SPECIAL_TOKEN_BYTE, SPECIAL_TOKEN_BYTE]);
      const parts = `${mark} ${printed(text(expression.name), true)} ${mark}`;
      return isTight ? `(${parts})` : parts;
    }
    case 'rule':
      return expression.name;
    case 'sequence': {
      const parts = expression.parts
        .map((part) => printed(part, part.kind === 'choice' || part.kind === 'characters'))
        .join(' ');
      return isTight ? `(${parts})` : parts;
    }
    case 'choice': {
      const options = expression.options.map((option) => printed(option, false)).join(' | ');
      return isTight ? `(${options})` : options;
    }
    case 'repeat': {
      const { what, min, max } = expression;
      const isAtom = what.kind === 'characters' || what.kind === 'rule';
      return `${isAtom ? printed(what, true) : `(${printed(what, false)})`}${quantifier(min, max)}`;
    }
  }
}

/**
 * A set of characters. The library's classes read bytes, but for negated ones, which leave out ASCII and read all else as whole
 * characters: so a set that has all that is not ASCII is a negated class, and any other is written as the bytes of its UTF-8.
 */
function classes(set: CodePointSet, isTight: boolean): string {
  const ascii = intersection(set, ASCII);
  const high = intersection(set, NOT_ASCII);
  const options: string[] = [];
  if (high.join() === NOT_ASCII.join()) {
    const excluded = intersection(complement(set), ASCII);
    if (excluded.length > 0) return `[^${pairs(excluded).map(range).join('')}]`;
    options.push('[^\\u0000]', '[\\u0000]');
  } else {
    if (ascii.length > 0) options.push(`[${pairs(ascii).map(range).join('')}]`);
    for (const bytes of utf8Sequences(high)) options.push(bytes.map(byteClass).join(' '));
  }
  const isOne = options.length === 1 && !options[0]!.includes('] [');
  return isTight && !isOne ? `(${options.join(' | ')})` : options.join(' | ');
}

const range = ([first, last]: readonly [number, number]) =>
  first === last ? escaped(first) : `${escaped(first)}-${escaped(last)}`;

/** One byte is written twice: the library takes a class of a single member for a text, and would encode it again. */
const byteClass = ([first, last]: readonly [number, number]) =>
  first === last ? `[${escaped(first)}${escaped(first)}]` : `[${range([first, last])}]`;

function quantifier(min: number, max: number): string {
  if (max === Number.POSITIVE_INFINITY) return min === 0 ? '*' : min === 1 ? '+' : `{${min},}`;
  return min === 0 && max === 1 ? '?' : min === max ? `{${min}}` : `{${min},${max}}`;
}

/** Letters, digits and harmless marks as themselves, all else by number; \x would swallow the hexadecimal digits after it. */
function escaped(codePoint: number): string {
  const character = String.fromCodePoint(codePoint);
  if (codePoint < 0x7f && /[A-Za-z0-9 _.,:;<>=@!#%&+*/(){}|~?$']/.test(character)) return character;
  const hex = codePoint.toString(16);
  return codePoint < 0x10000 ? `\\u${hex.padStart(4, '0')}` : `\\U${hex.padStart(8, '0')}`;
}

/** Inside of quotation marks. */
function quoted(character: string): string {
  return character === '"' || character === '\\' ? `\\${character}` : escaped(character.codePointAt(0)!);
}

/**
 * The same expression with alternatives that begin alike as rules of their own. The library merges states of one rule that look
 * alike, and accepts a mixture of such alternatives then: of `"[" s i (c i)? s "]" | "[" s "]"` it accepts `[7 7]`. Alternatives of
 * text alone stay: the library takes rules of text for what they produce.
 *
 * @param add makes a rule
 */
function withSeparateAlternatives(expression: Expression, add: (content: Expression) => Expression): Expression {
  const inner = (part: Expression) => withSeparateAlternatives(part, add);
  switch (expression.kind) {
    case 'sequence':
      return sequenceOf(expression.parts.map(inner));
    case 'repeat':
      return repeat(inner(expression.what), expression.min, expression.max);
    case 'choice': {
      const beginnings = new Map<string, number>();
      for (const option of expression.options) {
        const beginning = beginningOf(option);
        if (beginning !== undefined) beginnings.set(beginning, (beginnings.get(beginning) ?? 0) + 1);
      }
      return choiceOf(
        expression.options.map((option) => {
          const isShared = (beginnings.get(beginningOf(option) ?? '') ?? 0) > 1;
          const written = inner(option);
          return isShared && written.kind === 'sequence' && !isText(written) ? add(written) : written;
        }),
      );
    }
    default:
      return expression;
  }
}

/** First character of an expression, as far as one look shows; undefined if it is nothing, or one of several. */
function beginningOf(expression: Expression): string | undefined {
  switch (expression.kind) {
    case 'text':
      return expression.text === '' ? undefined : `text ${String.fromCodePoint(expression.text.codePointAt(0)!)}`;
    case 'characters':
      return `characters ${expression.set.join()}`;
    case 'special':
      return `special ${expression.name}`;
    case 'rule':
      return `rule ${expression.name}`;
    case 'sequence':
      return beginningOf(expression.parts[0]!);
    case 'repeat':
      return beginningOf(expression.what);
    case 'choice':
      return undefined;
  }
}

const isText = (expression: Expression): boolean =>
  expression.kind === 'text' || (expression.kind === 'sequence' && expression.parts.every(isText));

/** A first and a last byte. */
type ByteRange = readonly [number, number];

/** The largest value of each length of UTF-8; RFC 3629 section 3. */
const LAST_OF_LENGTH = [0x7f, 0x7ff, 0xffff, 0x10ffff];

/** The UTF-8 of a set as sequences of byte ranges: each sequence is all texts that take one byte of each range. */
function utf8Sequences(set: CodePointSet): ByteRange[][] {
  return pairs(set).flatMap(([first, last]) => {
    const found: ByteRange[][] = [];
    let from = first;
    for (const limit of LAST_OF_LENGTH) {
      if (from > last) break;
      const to = Math.min(last, limit);
      if (from <= to) found.push(...ofOneLength(bytesOf(from), bytesOf(to)));
      from = Math.max(from, limit + 1);
    }
    return found;
  });
}

const bytesOf = (codePoint: number) => [...Buffer.from(String.fromCodePoint(codePoint))];

/** Bytes after the first go from 80 to BF: only the lowest and the highest first byte may not take all of them. */
function ofOneLength(low: readonly number[], high: readonly number[]): ByteRange[][] {
  const [first, ...restLow] = low as [number, ...number[]];
  const [last, ...restHigh] = high as [number, ...number[]];
  if (restLow.length === 0) return [[[first, last]]];
  const least = restLow.map(() => 0x80);
  const most = restLow.map(() => 0xbf);
  if (first === last) return ofOneLength(restLow, restHigh).map((rest) => [[first, last], ...rest]);
  const isWhole = (bytes: readonly number[], limit: readonly number[]) => bytes.join() === limit.join();
  const found: ByteRange[][] = [];
  let [from, to] = [first, last];
  if (!isWhole(restLow, least)) {
    found.push(...ofOneLength(restLow, most).map((rest): ByteRange[] => [[first, first], ...rest]));
    from++;
  }
  if (!isWhole(restHigh, most)) to--;
  if (from <= to) found.push([[from, to], ...least.map((byte): ByteRange => [byte, 0xbf])]);
  if (to < last) found.push(...ofOneLength(least, restHigh).map((rest): ByteRange[] => [[last, last], ...rest]));
  return found;
}
