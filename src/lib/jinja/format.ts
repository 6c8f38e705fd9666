import type { Budget } from './budget.js';
import { fail } from './errors.js';
import { decimal, floatRepr, lengthOfText, repr, str } from './text.js';
import {
  type Arguments,
  asFloat,
  asInteger,
  asText,
  Dict,
  Float,
  integer,
  Markup,
  Sequence,
  typeName,
  Undefined,
  type Value,
} from './values.js';

/** `%(key)`, flags, width, precision, type. */
const CONVERSION = /%(?:\(([^)]*)\))?([-+ #0]*)(\d{0,9})(?:\.(\d{0,9}))?([a-zA-Z%])/y;

/** `format % values` @throws TemplateError for what Python refuses and for conversions that are not supported */
export function formatPercent(format: string | Markup, values: Value, budget: Budget): string | Markup {
  const text = asText(format)!;
  const positional = values instanceof Sequence && values.kind === 'tuple' ? values.items : [values];
  let used = 0;
  let usesKeys = false;
  let output = '';
  for (let at = 0; at < text.length; ) {
    const next = text.indexOf('%', at);
    if (next < 0) {
      output += text.slice(at);
      break;
    }
    output += text.slice(at, next);
    CONVERSION.lastIndex = next;
    const match = CONVERSION.exec(text) ?? fail(`"${text.slice(next, next + 8)}" is not a conversion of a format`);
    const [whole, key, flags = '', width = '', precision, type = ''] = match;
    at = next + whole.length;
    if (type === '%') {
      output += '%';
      continue;
    }
    let value: Value | undefined;
    if (key === undefined) value = positional[used++];
    else {
      usesKeys = true;
      value = values instanceof Dict ? values.get(key) : fail('a format with names needs a mapping');
    }
    if (value === undefined) return fail('a format has more conversions than values');
    const converted = convert(type, value, flags, precision === undefined ? undefined : Number(precision), budget);
    budget.chargeText(Math.max(converted.length, Number(width)));
    output += pad(converted, flags, Number(width), type);
  }
  // Python forgives what could be a mapping.
  const isForgiven =
    values instanceof Dict || values instanceof Undefined || (values instanceof Sequence && values.kind !== 'tuple');
  if (!usesKeys && !isForgiven && used < positional.length) {
    fail('a format has fewer conversions than values');
  }
  budget.chargeText(output.length);
  return format instanceof Markup ? new Markup(output) : output;
}

function convert(type: string, value: Value, flags: string, precision: number | undefined, budget: Budget): string {
  switch (type) {
    case 's':
    case 'r': {
      const text = type === 's' ? str(value, budget) : repr(value, budget);
      return precision === undefined ? text : [...text].slice(0, precision).join('');
    }
    case 'd':
    case 'i':
    case 'u':
      return signed(decimal(toInteger(value), budget), flags);
    case 'x':
    case 'X': {
      const int = asInteger(value);
      if (int === undefined) return fail(`%${type} needs an int, not ${typeName(value)}`);
      const digits = signed(int.toString(16), flags);
      return type === 'x' ? digits : digits.toUpperCase();
    }
    case 'f':
    case 'F': {
      const number = asFloat(value);
      if (number === undefined) return fail(`%${type} needs a number, not ${typeName(value)}`);
      return signed(fixed(number, precision ?? 6), flags);
    }
    default:
      return fail(`the conversion "%${type}" is not supported`);
  }
}

function toInteger(value: Value): number | bigint {
  if (value instanceof Float && Number.isFinite(value.value)) return integer(BigInt(Math.trunc(value.value)));
  return asInteger(value) ?? fail(`%d needs a number, not ${typeName(value)}`);
}

function signed(digits: string, flags: string): string {
  if (digits.startsWith('-')) return digits;
  return flags.includes('+') ? `+${digits}` : flags.includes(' ') ? ` ${digits}` : digits;
}

function pad(text: string, flags: string, width: number, type: string): string {
  const missing = width - lengthOfText(text);
  if (missing <= 0) return text;
  if (flags.includes('-')) return text + ' '.repeat(missing);
  if (!flags.includes('0') || type === 's' || type === 'r') return ' '.repeat(missing) + text;
  const sign = /^[-+ ]/.test(text) ? 1 : 0;
  return text.slice(0, sign) + '0'.repeat(missing) + text.slice(sign);
}

/** The float with that many decimals, halves to the even digit, as Python rounds. */
export function fixed(value: number, decimals: number): string {
  if (!Number.isFinite(value)) return floatRepr(value);
  if (decimals > 70) fail(`${decimals} decimals are not supported`);
  if (Math.abs(value) >= 1e21) {
    return decimals === 0 ? BigInt(value).toString() : `${BigInt(value)}.${'0'.repeat(decimals)}`;
  }
  const digits = value.toFixed(decimals);
  // `toFixed` rounds a tie away from zero. A tie ends in a 5 and then zeros, which 30 more digits show.
  const exact = value.toFixed(decimals + 30);
  if (!/50{29}$/.test(exact)) return Object.is(value, -0) ? `-${digits}` : digits;
  const below = exact.slice(0, decimals === 0 ? -31 : -30);
  return '02468'.includes(below.at(-1)!) ? below : digits;
}

/** `text.format(…)` with `{}`, `{0}` and `{name}`. @throws TemplateError for conversions and format specifications */
export function formatBraces(text: string, args: Arguments): string {
  let next = 0;
  const output = text.replace(/\{\{|\}\}|\{([^{}]*)\}|[{}]/g, (whole, field?: string) => {
    if (whole === '{{' || whole === '}}') return whole[0]!;
    if (field === undefined || !/^\w*$/.test(field)) return fail(`"${whole}" in str.format is not supported`);
    const value = /^\d*$/.test(field) ? args.positional[field === '' ? next++ : Number(field)] : args.named.get(field);
    if (value === undefined) return fail(`str.format lacks a value for "${whole}"`);
    if (value instanceof Undefined) return '';
    const part = str(value, args.budget);
    args.budget.chargeText(part.length);
    return part;
  });
  args.budget.chargeText(output.length);
  return output;
}
