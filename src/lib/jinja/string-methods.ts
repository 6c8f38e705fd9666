import { CODE_POINT_CLASSES, CodePointClass, LETTER } from '../unicode/code-point-classes.js';
import type { Budget } from './budget.js';
import { fail } from './errors.js';
import { formatBraces } from './format.js';
import { charactersOf, isSpace, lengthOfText, strip } from './text.js';
import {
  type Arguments,
  asInteger,
  asText,
  Dict,
  list,
  NONE,
  None,
  Sequence,
  tuple,
  typeName,
  type Value,
} from './values.js';

export type Method<T> = (self: T, args: Arguments) => Value;

const textArgument = (name: string, value: Value | undefined): string =>
  asText(value) ?? fail(`${name}() needs a string${value === undefined ? '' : `, not ${typeName(value)}`}`);
const intArgument = (name: string, value: Value): number => {
  const int = asInteger(value);
  return int === undefined ? fail(`${name}() needs an int, not ${typeName(value)}`) : Number(int);
};
const isNone = (value: Value | undefined): value is undefined | None => value === undefined || value instanceof None;

const stripping =
  (name: string, side: 'left' | 'right' | 'both'): Method<string> =>
  (text, args) => {
    const [characters] = args.bind(name, 'chars');
    args.budget.chargeText(text.length);
    return strip(text, side, isNone(characters) ? undefined : textArgument(name, characters));
  };

const changing =
  (name: string, change: (text: string) => string): Method<string> =>
  (text, args) => {
    args.bind(name);
    args.budget.chargeText(text.length);
    return change(text);
  };

/** `startswith` and `endswith`: of one string or any of a tuple, inside of `text[start:end]`. */
const affix =
  (name: 'startswith' | 'endswith'): Method<string> =>
  (text, args) => {
    const [given, start, end] = args.bind(name, 'prefix', 'start', 'end');
    args.budget.charge(1);
    const part = bounded(name, text, start, end, args.budget).text;
    const affixes = given instanceof Sequence && given.kind === 'tuple' ? given.items : [given];
    return affixes.some((each) => {
      const wanted = textArgument(name, each);
      return name === 'startswith' ? part.startsWith(wanted) : part.endsWith(wanted);
    });
  };

/** `text[start:end]`, and the code points in front of it. */
function bounded(name: string, text: string, start: Value | undefined, end: Value | undefined, budget: Budget) {
  if (isNone(start) && isNone(end)) return { text, offset: 0 };
  const characters = charactersOf(text, budget);
  const clamp = (at: number) => Math.min(Math.max(at < 0 ? at + characters.length : at, 0), characters.length);
  const from = isNone(start) ? 0 : clamp(intArgument(name, start));
  const part = characters.slice(from, isNone(end) ? characters.length : clamp(intArgument(name, end)));
  return { text: typeof part === 'string' ? part : part.join(''), offset: from };
}

const finding =
  (name: string, last: boolean, isRequired: boolean): Method<string> =>
  (text, args) => {
    const [part, start, end] = args.bind(name, 'sub', 'start', 'end');
    const wanted = textArgument(name, part);
    args.budget.chargeSearch(text, wanted);
    const inside = bounded(name, text, start, end, args.budget);
    const at = last ? inside.text.lastIndexOf(wanted) : inside.text.indexOf(wanted);
    if (at >= 0) return inside.offset + lengthOfText(inside.text.slice(0, at));
    return isRequired ? fail('substring not found') : -1;
  };

const splitting =
  (name: 'split' | 'rsplit'): Method<string> =>
  (text, args) => {
    const [separator, most] = args.bind(name, 'sep', 'maxsplit');
    const limit = most === undefined ? -1 : intArgument(name, most);
    args.budget.chargeText(text.length);
    const parts = isNone(separator)
      ? splitAtSpace(text, limit, name === 'rsplit')
      : splitAt(text, textArgument(name, separator), limit, name === 'rsplit', args.budget);
    args.budget.charge(parts.length);
    return list(parts);
  };

function splitAt(text: string, separator: string, limit: number, fromRight: boolean, budget: Budget): string[] {
  if (separator === '') fail('empty separator');
  budget.chargeSearch(text, separator);
  if (limit < 0 && !fromRight) return text.split(separator);
  const parts: string[] = [];
  let start = 0;
  let end = text.length;
  while (limit < 0 || parts.length < limit) {
    const at = fromRight
      ? end < separator.length
        ? -1
        : text.lastIndexOf(separator, end - separator.length)
      : text.indexOf(separator, start);
    if (at < 0) break;
    parts.push(fromRight ? text.slice(at + separator.length, end) : text.slice(start, at));
    if (fromRight) end = at;
    else start = at + separator.length;
  }
  parts.push(text.slice(start, end));
  return fromRight ? parts.reverse() : parts;
}

function splitAtSpace(text: string, limit: number, fromRight: boolean): string[] {
  const parts: string[] = [];
  let start = 0;
  let end = text.length;
  const spaceAt = (at: number) => isSpace(text.charCodeAt(at));
  for (;;) {
    if (fromRight) while (end > start && spaceAt(end - 1)) end--;
    else while (start < end && spaceAt(start)) start++;
    if (start === end) break;
    if (parts.length === limit) {
      parts.push(text.slice(start, end));
      break;
    }
    let cut = fromRight ? end : start;
    while (fromRight ? cut > start && !spaceAt(cut - 1) : cut < end && !spaceAt(cut)) cut += fromRight ? -1 : 1;
    parts.push(fromRight ? text.slice(cut, end) : text.slice(start, cut));
    if (fromRight) end = cut;
    else start = cut;
  }
  return fromRight ? parts.reverse() : parts;
}

/** A line ends at any of these units, and at a carriage return with its line feed. */
const LINE_ENDS: ReadonlySet<number> = new Set([
  ...[0x0a, 0x0b, 0x0c, 0x0d],
  ...[0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029],
]);

function splitLines(text: string, keepEnds: boolean): string[] {
  const lines: string[] = [];
  let start = 0;
  for (let at = 0; at < text.length; at++) {
    if (!LINE_ENDS.has(text.charCodeAt(at))) continue;
    const end = text.startsWith('\r\n', at) ? at + 2 : at + 1;
    lines.push(text.slice(start, keepEnds ? end : at));
    start = end;
    at = end - 1;
  }
  return start < text.length ? [...lines, text.slice(start)] : lines;
}

const justifying =
  (name: string, place: 'left' | 'right' | 'center'): Method<string> =>
  (text, args) => {
    const [width, fill = ' '] = args.bind(name, 'width', 'fillchar');
    const missing = intArgument(name, width ?? NONE) - lengthOfText(text);
    if (missing <= 0) return text;
    args.budget.chargeText(text.length + missing);
    // Python's own rule for the odd one: to the left where both are odd.
    const left =
      place === 'left'
        ? 0
        : place === 'right'
          ? missing
          : (missing >> 1) + (missing & (missing + lengthOfText(text)) & 1);
    const filler = textArgument(name, fill);
    return filler.repeat(left) + text + filler.repeat(missing - left);
  };

const partitioning =
  (name: string, last: boolean): Method<string> =>
  (text, args) => {
    const [given] = args.bind(name, 'sep');
    const separator = textArgument(name, given);
    if (separator === '') fail('empty separator');
    args.budget.chargeSearch(text, separator);
    args.budget.chargeText(text.length);
    const at = last ? text.lastIndexOf(separator) : text.indexOf(separator);
    if (at < 0) return last ? tuple('', '', text) : tuple(text, '', '');
    return tuple(text.slice(0, at), separator, text.slice(at + separator.length));
  };

/** True if the text is not empty and every character of it has one of the classes. */
const classed =
  (name: string, classes: number): Method<string> =>
  (text, args) => {
    args.bind(name);
    args.budget.charge(text.length / 8);
    return text !== '' && Array.from(text).every((c) => (CODE_POINT_CLASSES[c.codePointAt(0)!]! & classes) !== 0);
  };

const cased =
  (name: string, wanted: number, other: number): Method<string> =>
  (text, args) => {
    args.bind(name);
    args.budget.charge(text.length / 8);
    let all = 0;
    for (const character of text) all |= CODE_POINT_CLASSES[character.codePointAt(0)!]!;
    return (all & wanted) !== 0 && (all & other) === 0;
  };

const isDigits =
  (name: string): Method<string> =>
  (text, args) => {
    args.bind(name);
    args.budget.charge(text.length / 8);
    return /^\p{Nd}+$/u.test(text);
  };

export const capitalize = (text: string): string => {
  const first = String.fromCodePoint(text.codePointAt(0) ?? 0x20);
  return text === '' ? '' : first.toUpperCase() + text.slice(first.length).toLowerCase();
};
const titlecase = (text: string): string => text.toLowerCase().replace(/\p{L}+/gu, (word) => capitalize(word));

export function replaceText(text: string, from: string, to: string, count: number, budget: Budget): string {
  if (count === 0) return text;
  budget.chargeSearch(text, from);
  // The result is at most this long; what is made of it is known when it is made.
  const parts = from === '' ? ['', ...text, ''] : splitAt(text, from, count, false, budget);
  if (from === '' && count > 0) parts.push(parts.splice(count).join(''));
  budget.chargeText(text.length + (parts.length - 1) * to.length);
  return parts.join(to);
}

export const STRING_METHODS: ReadonlyMap<string, Method<string>> = new Map<string, Method<string>>([
  ['strip', stripping('strip', 'both')],
  ['lstrip', stripping('lstrip', 'left')],
  ['rstrip', stripping('rstrip', 'right')],
  ['upper', changing('upper', (text) => text.toUpperCase())],
  ['lower', changing('lower', (text) => text.toLowerCase())],
  ['casefold', changing('casefold', (text) => text.toUpperCase().toLowerCase())],
  ['capitalize', changing('capitalize', capitalize)],
  ['title', changing('title', titlecase)],
  [
    'swapcase',
    changing('swapcase', (text) =>
      text.replace(/\p{L}/gu, (c) => (c === c.toUpperCase() ? c.toLowerCase() : c.toUpperCase())),
    ),
  ],
  ['startswith', affix('startswith')],
  ['endswith', affix('endswith')],
  ['find', finding('find', false, false)],
  ['rfind', finding('rfind', true, false)],
  ['index', finding('index', false, true)],
  ['rindex', finding('rindex', true, true)],
  ['split', splitting('split')],
  ['rsplit', splitting('rsplit')],
  ['partition', partitioning('partition', false)],
  ['rpartition', partitioning('rpartition', true)],
  ['ljust', justifying('ljust', 'left')],
  ['rjust', justifying('rjust', 'right')],
  ['center', justifying('center', 'center')],
  ['isalpha', classed('isalpha', LETTER)],
  ['isalnum', classed('isalnum', LETTER | CodePointClass.number)],
  ['isnumeric', classed('isnumeric', CodePointClass.number)],
  ['isdigit', isDigits('isdigit')],
  ['isdecimal', isDigits('isdecimal')],
  ['isupper', cased('isupper', CodePointClass.upper, CodePointClass.lower)],
  ['islower', cased('islower', CodePointClass.lower, CodePointClass.upper)],
  [
    'isspace',
    (text, args) => {
      args.bind('isspace');
      args.budget.charge(text.length / 8);
      return text !== '' && strip(text, 'both') === '';
    },
  ],
  [
    'splitlines',
    (text, args) => {
      const [keepEnds = false] = args.bind('splitlines', 'keepends');
      args.budget.chargeText(text.length);
      const lines = splitLines(text, intArgument('splitlines', keepEnds) !== 0);
      args.budget.charge(lines.length);
      return list(lines);
    },
  ],
  [
    'count',
    (text, args) => {
      const [part] = args.bind('count', 'sub');
      const wanted = textArgument('count', part);
      if (wanted === '') return lengthOfText(text) + 1;
      return splitAt(text, wanted, -1, false, args.budget).length - 1;
    },
  ],
  [
    'replace',
    (text, args) => {
      const [from, to, count = -1] = args.bind('replace', 'old', 'new', 'count');
      const [old, fresh] = [textArgument('replace', from), textArgument('replace', to)];
      return replaceText(text, old, fresh, intArgument('replace', count), args.budget);
    },
  ],
  [
    'join',
    (text, args) => {
      const [items] = args.bind('join', 'iterable');
      const parts = itemsOf(items ?? NONE, args.budget).map((item) => textArgument('join', item));
      args.budget.chargeText(parts.reduce((length, part) => length + part.length + text.length, 0));
      return parts.join(text);
    },
  ],
  [
    'removeprefix',
    (text, args) => {
      const prefix = textArgument('removeprefix', args.bind('removeprefix', 'prefix')[0]);
      return text.startsWith(prefix) ? text.slice(prefix.length) : text;
    },
  ],
  [
    'removesuffix',
    (text, args) => {
      const suffix = textArgument('removesuffix', args.bind('removesuffix', 'suffix')[0]);
      return suffix !== '' && text.endsWith(suffix) ? text.slice(0, -suffix.length) : text;
    },
  ],
  [
    'zfill',
    (text, args) => {
      const missing = intArgument('zfill', args.bind('zfill', 'width')[0] ?? NONE) - lengthOfText(text);
      if (missing <= 0) return text;
      args.budget.chargeText(text.length + missing);
      const sign = /^[-+]/.test(text) ? 1 : 0;
      return text.slice(0, sign) + '0'.repeat(missing) + text.slice(sign);
    },
  ],
  ['format', (text, args) => formatBraces(text, args)],
]);

function itemsOf(value: Value, budget: Budget): readonly Value[] {
  if (value instanceof Sequence) {
    budget.charge(value.items.length);
    return value.take();
  }
  if (value instanceof Dict) return value.keys();
  const text = asText(value);
  if (text === undefined) return fail(`can only join an iterable, not ${typeName(value)}`);
  budget.charge(text.length);
  return [...text];
}
