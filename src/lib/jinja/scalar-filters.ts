import { fail } from './errors.js';
import { fixed, formatPercent } from './format.js';
import { toJson } from './json.js';
import { replaceText, STRING_METHODS } from './string-methods.js';
import { escapeHtml, lengthOfText, str, strip } from './text.js';
import {
  Arguments,
  asFloat,
  asInteger,
  asText,
  Dict,
  Float,
  integer,
  isTruthy,
  Markup,
  NONE,
  None,
  Sequence,
  tuple,
  typeName,
  Undefined,
  type Value,
} from './values.js';

/** `value | name(args)` */
export type Filter = (value: Value, args: Arguments) => Value;

/** The int that was passed, or the default. */
export const intArgument = (value: Value | undefined, fallback: number): number =>
  value === undefined ? fallback : Number(asInteger(value) ?? fail(`expected an int, not ${typeName(value)}`));

/** A filter of `str(value)`, by the method of the same name. */
const byMethod =
  (name: string): Filter =>
  (value, args) => {
    const result = STRING_METHODS.get(name)!(str(value, args.budget), args);
    return value instanceof Markup ? new Markup(result as string) : result;
  };

const toInt: Filter = (value, args) => {
  const [fallback = 0, base = 10] = args.bind('int', 'default', 'base');
  const text = asText(value);
  if (text === undefined) {
    if (value instanceof Float) {
      return Number.isFinite(value.value) ? integer(BigInt(Math.trunc(value.value))) : fallback;
    }
    return value instanceof Undefined ? value.fail() : (asInteger(value) ?? fallback);
  }
  if (asInteger(base) !== 10) return fail('the filter "int" supports base 10 only');
  const digits = strip(text, 'both').replaceAll(/(?<=\d)_(?=\d)/g, '');
  if (/^[-+]?\d{1,4300}$/.test(digits)) return integer(BigInt(digits.replace('+', '')));
  const float = parseFloatText(text);
  return float === undefined || !Number.isFinite(float) ? fallback : integer(BigInt(Math.trunc(float)));
};

const toFloat: Filter = (value, args) => {
  const [fallback = new Float(0)] = args.bind('float', 'default');
  if (value instanceof Undefined) value.fail();
  const text = asText(value);
  const float = text === undefined ? asFloat(value) : parseFloatText(text);
  return float === undefined ? fallback : new Float(float);
};

function parseFloatText(text: string): number | undefined {
  const digits = strip(text, 'both').replaceAll(/(?<=\d)_(?=\d)/g, '');
  if (/^[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?$/i.test(digits)) return Number(digits);
  const named = /^([-+]?)(inf|infinity|nan)$/i.exec(digits);
  if (named === null) return undefined;
  return /nan/i.test(named[2]!) ? Number.NaN : named[1] === '-' ? -Infinity : Infinity;
}

const round: Filter = (value, args) => {
  const [digits, method = 'common'] = args.bind('round', 'precision', 'method');
  const precision = intArgument(digits, 0);
  const number = asFloat(value) ?? fail(`a ${typeName(value)} cannot be rounded`);
  if (method === 'ceil' || method === 'floor') {
    const scale = 10 ** precision;
    return new Float((method === 'ceil' ? Math.ceil(number * scale) : Math.floor(number * scale)) / scale);
  }
  if (method !== 'common') return fail('method must be common, ceil or floor');
  const whole = asInteger(value);
  if (precision < 0) return fail('rounding to tens is not supported');
  if (whole !== undefined) return whole;
  return new Float(Number.isFinite(number) ? Number(fixed(number, precision)) : number);
};

const indent: Filter = (value, args) => {
  const [width = 4, first = false, blank = false] = args.bind('indent', 'width', 'first', 'blank');
  const text = asText(value) ?? fail(`a ${typeName(value)} cannot be indented`);
  const spaces = asText(width);
  if (spaces === undefined) args.budget.chargeText(intArgument(width, 4));
  const margin = spaces ?? ' '.repeat(Math.max(0, intArgument(width, 4)));
  const [head = '', ...lines] = (
    STRING_METHODS.get('splitlines')!(`${text}\n`, new Arguments([], new Map(), args.budget)) as Sequence
  ).items as string[];
  args.budget.chargeText(text.length + lines.length * margin.length);
  const indented = lines.map((line) => (line === '' && !isTruthy(blank) ? line : margin + line));
  return (isTruthy(first) ? margin : '') + [head, ...indented].join('\n');
};

const tojson: Filter = (value, args) => {
  const [ensureAscii = false, indentation = NONE, separators = NONE, sortKeys = false] = args.bind(
    'tojson',
    'ensure_ascii',
    'indent',
    'separators',
    'sort_keys',
  );
  const width = asInteger(indentation);
  if (width !== undefined) args.budget.chargeText(Number(width));
  const indentText = width === undefined ? asText(indentation) : ' '.repeat(Math.max(0, Number(width)));
  let [itemSeparator, keySeparator] = [indentText === undefined ? ', ' : ',', ': '];
  if (separators instanceof Sequence) {
    const given = separators.items.map((item) => asText(item) ?? fail('separators are strings'));
    if (given.length !== 2) fail('separators are two strings');
    [itemSeparator, keySeparator] = given as [string, string];
  }
  const style = { ensureAscii: isTruthy(ensureAscii), indent: indentText, itemSeparator, keySeparator };
  return toJson(value, { ...style, sortKeys: isTruthy(sortKeys) }, args.budget);
};

const truncate: Filter = (value, args) => {
  const [most, killWords = false, end = '...', leeway] = args.bind('truncate', 'length', 'killwords', 'end', 'leeway');
  const characters = [...(asText(value) ?? fail(`a ${typeName(value)} cannot be truncated`))];
  args.budget.charge(characters.length);
  const tail = str(end, args.budget);
  const size = intArgument(most, 255);
  if (characters.length <= size + intArgument(leeway, 5)) return value;
  const kept = characters.slice(0, size - lengthOfText(tail)).join('');
  const cut = isTruthy(killWords) ? -1 : kept.lastIndexOf(' ');
  return (cut < 0 ? kept : kept.slice(0, cut)) + tail;
};

/** Jinja's own, which knows other words than `str.title`. */
const title: Filter = (value, args) => {
  args.bind('title');
  const parts = str(value, args.budget).split(/([-\s({[<]+)/);
  args.budget.charge(parts.length);
  return parts.map((part) => part.slice(0, 1).toUpperCase() + part.slice(1).toLowerCase()).join('');
};

function absolute(value: Value, args: Arguments): Value {
  args.bind('abs');
  if (value instanceof Float) return new Float(Math.abs(value.value));
  const whole = asInteger(value) ?? fail(`a ${typeName(value)} has no absolute value`);
  return whole < 0 ? integer(-BigInt(whole)) : whole;
}

function formatted(value: Value, args: Arguments): Value {
  if (args.positional.length > 0 && args.named.size > 0) fail('format takes positional or named values, not both');
  const values = args.named.size > 0 ? Dict.of(args.named) : tuple(...args.positional);
  return formatPercent(value instanceof Markup ? value : str(value, args.budget), values, args.budget);
}

function replaced(value: Value, args: Arguments): Value {
  const [from, to, count] = args.bind('replace', 'old', 'new', 'count');
  if (from === undefined || to === undefined) return fail('replace needs two strings');
  const texts = [value, from, to].map((each) => str(each, args.budget)) as [string, string, string];
  return replaceText(...texts, count instanceof None ? -1 : intArgument(count, -1), args.budget);
}

/** Filters of one string or number. */
export const SCALAR_FILTERS: readonly (readonly [name: string, filter: Filter])[] = [
  ['abs', absolute],
  ['capitalize', byMethod('capitalize')],
  ['center', center],
  ['e', escaped],
  ['escape', escaped],
  ['float', toFloat],
  ['format', formatted],
  ['indent', indent],
  ['int', toInt],
  ['lower', byMethod('lower')],
  ['replace', replaced],
  ['round', round],
  ['safe', safe],
  ['string', toText],
  ['title', title],
  ['tojson', tojson],
  ['trim', byMethod('strip')],
  ['truncate', truncate],
  ['upper', byMethod('upper')],
  ['wordcount', wordcount],
];

function center(value: Value, args: Arguments): Value {
  const [width = 80] = args.bind('center', 'width');
  return byMethod('center')(value, new Arguments([width], new Map(), args.budget));
}

function escaped(value: Value, args: Arguments): Value {
  args.bind('escape');
  return escapeHtml(value, args.budget);
}

function safe(value: Value, args: Arguments): Value {
  args.bind('safe');
  return new Markup(str(value, args.budget));
}

function toText(value: Value, args: Arguments): Value {
  args.bind('string');
  return value instanceof Markup ? value : str(value, args.budget);
}

function wordcount(value: Value, args: Arguments): Value {
  args.bind('wordcount');
  const text = str(value, args.budget);
  args.budget.charge(text.length);
  return text.match(/[\p{L}\p{N}_]+/gu)?.length ?? 0;
}
