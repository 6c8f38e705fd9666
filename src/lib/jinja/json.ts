import { type JsonMaker, readJson } from '../json/exact-json.js';
import type { Budget } from './budget.js';
import { fail } from './errors.js';
import { decimal, floatRepr } from './text.js';
import { asText, Dict, Float, integer, list, NONE, None, Sequence, typeName, type Value } from './values.js';

const MAX_DEPTH = 100;
/** Python's own limit. */
const MAX_DIGITS = 4300;

/**
 * JSON as Python's `json.loads` reads it: ints of any size, floats as floats, keys in the order they were written.
 *
 * @throws SyntaxError for a text that is not JSON, nested deeper than 100 levels or with an int of more than 4,300 digits
 */
export function parseJson(text: string): Value {
  return readJson(text, PYTHON, MAX_DEPTH);
}

const PYTHON: JsonMaker<Value> = {
  string: (text) => text,
  number: (text) => {
    if (/[.eE]/.test(text)) return new Float(Number(text));
    const digits = text.length - (text.startsWith('-') ? 1 : 0);
    if (digits > MAX_DIGITS) throw new SyntaxError(`an integer of more than ${MAX_DIGITS} digits`);
    return integer(BigInt(text));
  },
  constant: (value) => value ?? NONE,
  array: (items) => list(items),
  object: (members) => Dict.of(members),
};

export interface JsonStyle {
  readonly ensureAscii: boolean;
  /** Indentation of one level; `undefined` for everything on one line. */
  readonly indent: string | undefined;
  readonly itemSeparator: string;
  readonly keySeparator: string;
  readonly sortKeys: boolean;
}

/** `json.dumps(value)`. @throws TemplateError for a type that JSON has not */
export function toJson(value: Value, style: JsonStyle, budget: Budget): string {
  return write(value, style, budget, 0);
}

function write(value: Value, style: JsonStyle, budget: Budget, depth: number): string {
  if (depth > 2 * MAX_DEPTH) fail('a value is nested too deeply for JSON');
  budget.charge(1);
  if (value instanceof None) return 'null';
  if (typeof value === 'boolean') return value ? 'true' : 'false';
  if (typeof value === 'number' || typeof value === 'bigint') return decimal(value, budget);
  if (value instanceof Float) return writeFloat(value.value);
  const text = asText(value);
  if (text !== undefined) return writeString(text, style, budget);
  if (value instanceof Dict) {
    const entries = value.entries().map(([key, item]) => [keyText(key, budget), item] as const);
    if (style.sortKeys) entries.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    const parts = entries.map(
      ([key, item]) => writeString(key, style, budget) + style.keySeparator + write(item, style, budget, depth + 1),
    );
    return bracket('{', parts, '}', style, budget, depth);
  }
  if (value instanceof Sequence && (value.kind === 'list' || value.kind === 'tuple')) {
    const parts = value.items.map((item) => write(item, style, budget, depth + 1));
    return bracket('[', parts, ']', style, budget, depth);
  }
  return fail(`a value of type ${typeName(value)} is not JSON serializable`);
}

function bracket(
  open: string,
  parts: string[],
  close: string,
  style: JsonStyle,
  budget: Budget,
  depth: number,
): string {
  if (parts.length === 0) return open + close;
  if (style.indent === undefined) {
    const joined = parts.join(style.itemSeparator);
    budget.chargeText(joined.length);
    return open + joined + close;
  }
  budget.chargeText(style.indent.length * (depth + 2) * (parts.length + 1));
  const outer = `\n${style.indent.repeat(depth)}`;
  const inner = `\n${style.indent.repeat(depth + 1)}`;
  const joined = parts.join(style.itemSeparator + inner);
  budget.chargeText(joined.length);
  return open + inner + joined + outer + close;
}

function writeFloat(value: number): string {
  if (Number.isFinite(value)) return floatRepr(value);
  return Number.isNaN(value) ? 'NaN' : value > 0 ? 'Infinity' : '-Infinity';
}

function keyText(key: Value, budget: Budget): string {
  const text = asText(key);
  if (text !== undefined) return text;
  if (key instanceof None) return 'null';
  if (typeof key === 'boolean') return key ? 'true' : 'false';
  if (key instanceof Float) return writeFloat(key.value);
  return decimal(key as number | bigint, budget);
}

function writeString(text: string, style: JsonStyle, budget: Budget): string {
  budget.chargeText(text.length);
  const json = JSON.stringify(text);
  if (!style.ensureAscii) return json;
  return json.replace(/[\x7f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
