import { CODE_POINT_CLASSES, CodePointClass } from '../unicode/code-point-classes.js';
import type { Budget } from './budget.js';
import { fail } from './errors.js';
import {
  asText,
  Callable,
  Dict,
  Float,
  Markup,
  Namespace,
  None,
  Sequence,
  typeName,
  Undefined,
  type Value,
} from './values.js';

const MAX_DEPTH = 200;
const SURROGATE = /[\ud800-\udfff]/;

/** `str(value)`: what `{{ value }}` prints. */
export function str(value: Value, budget: Budget): string {
  if (typeof value === 'string') return value;
  if (value instanceof Markup) return value.text;
  if (value instanceof Undefined) return '';
  return repr(value, budget);
}

/** `repr(value)`: how a value prints inside of a list. */
export function repr(value: Value, budget: Budget, depth = 0): string {
  if (depth > MAX_DEPTH) fail(`a value is nested deeper than ${MAX_DEPTH} levels`);
  const inner = (item: Value) => repr(item, budget, depth + 1);
  budget.charge(1);
  if (value instanceof None) return value.isPrintable ? 'None' : fail('it prints a value that is none');
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'number' || typeof value === 'bigint') return decimal(value, budget);
  if (value instanceof Float) return floatRepr(value.value);
  if (value instanceof Undefined) return 'Undefined';
  const text = asText(value);
  if (text !== undefined) {
    budget.chargeText(text.length);
    return value instanceof Markup ? `Markup(${quote(text)})` : quote(text);
  }
  if (value instanceof Dict) {
    return `{${value
      .entries()
      .map(([key, item]) => `${inner(key)}: ${inner(item)}`)
      .join(', ')}}`;
  }
  if (value instanceof Sequence) return reprOfSequence(value, inner);
  if (value instanceof Namespace) return `<Namespace ${inner(Dict.of(value.attributes))}>`;
  // Python prints an address, which is never the same twice.
  return fail(`a ${value instanceof Callable ? `function (${value.name})` : typeName(value)} cannot be printed`);
}

function reprOfSequence(sequence: Sequence, inner: (item: Value) => string): string {
  const { kind, items } = sequence;
  const joined = () => items.map(inner).join(', ');
  if (kind === 'list') return `[${joined()}]`;
  if (kind === 'tuple') return items.length === 1 ? `(${joined()},)` : `(${joined()})`;
  if (kind === 'range') return sequence.label!;
  if (kind === 'generator') return fail('a generator cannot be printed; the template lacks "| list"');
  return `${kind}([${joined()}])`;
}

/** Digits of an int; Python refuses to print more than 4,300. */
export function decimal(value: number | bigint, budget: Budget): string {
  // Printing takes time in the square of the digits: a bit count is known at once.
  if (typeof value === 'bigint' && BigInt.asIntN(15_000, value) !== value) fail('an int has more than 4300 digits');
  const digits = String(value);
  budget.charge(digits.length / 16);
  return Object.is(value, -0) ? '0' : digits;
}

/** `repr(float)`: the shortest digits that read back as the same float, with an exponent below 1e-4 and from 1e16 on. */
export function floatRepr(value: number): string {
  if (Number.isNaN(value)) return 'nan';
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf';
  if (Object.is(value, -0)) return '-0.0';
  const magnitude = Math.abs(value);
  if (value !== 0 && (magnitude < 1e-4 || magnitude >= 1e16)) {
    const [digits, exponent] = value.toExponential().split('e') as [string, string];
    return `${digits}e${exponent[0]}${exponent.slice(1).padStart(2, '0')}`;
  }
  const digits = String(value);
  // JavaScript writes an exponent only below 1e-6 and from 1e21 on.
  return digits.includes('.') || digits.includes('e') ? digits : `${digits}.0`;
}

/** `repr(str)`. */
function quote(text: string): string {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
  let quoted = mark;
  for (const character of text) {
    const codePoint = character.codePointAt(0)!;
    if (character === mark || character === '\\') quoted += `\\${character}`;
    else if (character === '\n') quoted += '\\n';
    else if (character === '\r') quoted += '\\r';
    else if (character === '\t') quoted += '\\t';
    else if (isPrintable(codePoint)) quoted += character;
    else if (codePoint <= 0xff) quoted += `\\x${codePoint.toString(16).padStart(2, '0')}`;
    else if (codePoint <= 0xffff) quoted += `\\u${codePoint.toString(16).padStart(4, '0')}`;
    else quoted += `\\U${codePoint.toString(16).padStart(8, '0')}`;
  }
  return quoted + mark;
}

function isPrintable(codePoint: number): boolean {
  if (codePoint < 0x7f) return codePoint >= 0x20;
  const classes = CODE_POINT_CLASSES[codePoint]!;
  return (classes & ~CodePointClass.space) !== 0;
}

/** Python's white space: Unicode's, and the separators U+001C to U+001F. */
export function isSpace(unit: number): boolean {
  return (unit >= 0x1c && unit <= 0x1f) || (CODE_POINT_CLASSES[unit]! & CodePointClass.space) !== 0;
}

/** `text.strip()`, or one side of it; `characters` are those to take away instead of white space. */
export function strip(text: string, side: 'left' | 'right' | 'both', characters?: string): string {
  let start = 0;
  let end = text.length;
  if (characters === undefined) {
    // All white space is in the basic plane.
    if (side !== 'right') while (start < end && isSpace(text.charCodeAt(start))) start++;
    if (side !== 'left') while (end > start && isSpace(text.charCodeAt(end - 1))) end--;
    return text.slice(start, end);
  }
  const taken = new Set(characters);
  if (side !== 'right') {
    while (start < end) {
      const character = String.fromCodePoint(text.codePointAt(start)!);
      if (!taken.has(character)) break;
      start += character.length;
    }
  }
  if (side !== 'left') {
    while (end > start) {
      const width = end - start > 1 && text.codePointAt(end - 2)! > 0xffff ? 2 : 1;
      if (!taken.has(text.slice(end - width, end))) break;
      end -= width;
    }
  }
  return text.slice(start, end);
}

/** `len(text)`: Python counts code points. */
export function lengthOfText(text: string): number {
  if (!SURROGATE.test(text)) return text.length;
  let length = 0;
  for (let at = 0; at < text.length; at++) if ((text.charCodeAt(at) & 0xfc00) !== 0xdc00) length++;
  return length;
}

/** The characters of a text, as a string where one is a unit and as a list where not: both have an index and a length. */
export function charactersOf(text: string, budget: Budget): string | readonly string[] {
  budget.charge(text.length / 64);
  if (!SURROGATE.test(text)) return text;
  budget.charge(text.length);
  return [...text];
}

/** `a < b`, `==`, `>` by code points, not by UTF-16 units. */
export function compareText(a: string, b: string): number {
  if (a === b) return 0;
  if (!SURROGATE.test(a) && !SURROGATE.test(b)) return a < b ? -1 : 1;
  const end = Math.min(a.length, b.length);
  for (let at = 0; at < end; at++) {
    if (a.charCodeAt(at) !== b.charCodeAt(at)) return a.codePointAt(at)! - b.codePointAt(at)!;
  }
  return a.length - b.length;
}

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  "'": '&#39;',
  '"': '&#34;',
};

/** Escapes for HTML as `markupsafe` does. */
export function escapeHtml(value: Value, budget: Budget): Markup {
  if (value instanceof Markup) return value;
  const text = str(value, budget);
  budget.chargeText(text.length);
  return new Markup(text.replace(/[&<>'"]/g, (character) => ESCAPES[character]!));
}
