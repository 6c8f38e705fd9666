import { fail } from './errors.js';
import { decimal, floatRepr } from './text.js';
import { asText, Dict, Float, integer, list, NONE, None, Sequence, typeName, type Value } from './values.js';
import type { Work } from './work.js';

const MAX_DEPTH = 100;
/** Python's own limit. */
const MAX_DIGITS = 4300;

const SPACE = /[ \t\n\r]*/y;
const NUMBER = /(-?(?:0|[1-9]\d*))((?:\.\d+)?(?:[eE][-+]?\d+)?)/y;
const LITERALS: ReadonlyMap<string, boolean | None> = new Map<string, boolean | None>([
  ['true', true],
  ['false', false],
  ['null', NONE],
]);

/**
 * JSON as Python's `json.loads` reads it: ints of any size, floats as floats, keys in the order they were written.
 *
 * @throws SyntaxError for a text that is not JSON, nested deeper than 100 levels or with an int of more than 4,300 digits
 */
export function parseJson(text: string): Value {
  return new JsonParser(text).parse();
}

class JsonParser {
  private at = 0;

  constructor(private readonly text: string) {}

  parse(): Value {
    const value = this.parseValue(0);
    if (this.at < this.text.length) this.fail('unexpected text behind the value');
    return value;
  }

  private parseValue(depth: number): Value {
    if (depth > MAX_DEPTH) this.fail(`nested deeper than ${MAX_DEPTH} levels`);
    this.match(SPACE);
    const first = this.text[this.at];
    let value: Value;
    if (first === '"') value = this.parseString();
    else if (first === '{') value = this.parseObject(depth);
    else if (first === '[') value = this.parseArray(depth);
    else value = this.parseNumber() ?? this.parseLiteral();
    this.match(SPACE);
    return value;
  }

  private parseObject(depth: number): Dict {
    const dict = new Dict();
    this.at++;
    this.match(SPACE);
    if (this.skip('}')) return dict;
    do {
      this.match(SPACE);
      const key = this.parseString();
      this.match(SPACE);
      if (!this.skip(':')) this.fail('expected ":"');
      dict.set(key, this.parseValue(depth + 1));
    } while (this.skip(','));
    if (!this.skip('}')) this.fail('expected "," or "}"');
    return dict;
  }

  private parseArray(depth: number): Sequence {
    const items: Value[] = [];
    this.at++;
    this.match(SPACE);
    if (this.skip(']')) return list(items);
    do items.push(this.parseValue(depth + 1));
    while (this.skip(','));
    if (!this.skip(']')) this.fail('expected "," or "]"');
    return list(items);
  }

  private parseString(): string {
    const start = this.at;
    if (this.text[start] !== '"') this.fail('expected a string');
    let end = start + 1;
    while (end < this.text.length && this.text[end] !== '"') end += this.text[end] === '\\' ? 2 : 1;
    this.at = end + 1;
    try {
      return JSON.parse(this.text.slice(start, end + 1)) as string;
    } catch {
      this.at = start;
      return this.fail('a string is not ended or not escaped as JSON wants it');
    }
  }

  private parseNumber(): Value | undefined {
    NUMBER.lastIndex = this.at;
    const match = NUMBER.exec(this.text);
    if (match === null) return undefined;
    const [whole, digits = '', fraction] = match;
    if (fraction === '' && digits.length > MAX_DIGITS) this.fail(`an integer of more than ${MAX_DIGITS} digits`);
    this.at += whole.length;
    return fraction === '' ? integer(BigInt(digits)) : new Float(Number(whole));
  }

  private parseLiteral(): boolean | None {
    for (const [name, value] of LITERALS) if (this.skip(name)) return value;
    return this.fail(this.at < this.text.length ? 'unexpected character' : 'unexpected end');
  }

  private skip(expected: string): boolean {
    const found = this.text.startsWith(expected, this.at);
    if (found) this.at += expected.length;
    return found;
  }

  private match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0];
    this.at += found?.length ?? 0;
    return found;
  }

  private fail(problem: string): never {
    throw new SyntaxError(`${problem} at position ${this.at}`);
  }
}

export interface JsonStyle {
  readonly ensureAscii: boolean;
  /** What one level is indented by; `undefined` for everything on one line. */
  readonly indent: string | undefined;
  readonly itemSeparator: string;
  readonly keySeparator: string;
  readonly sortKeys: boolean;
}

/** `json.dumps(value)`. @throws TemplateError for a type that JSON has not */
export function toJson(value: Value, style: JsonStyle, work: Work): string {
  return write(value, style, work, 0);
}

function write(value: Value, style: JsonStyle, work: Work, depth: number): string {
  if (depth > 2 * MAX_DEPTH) fail('a value is nested too deeply for JSON');
  work.charge(1);
  if (value instanceof None) return 'null';
  if (typeof value === 'boolean') return value ? 'true' : 'false';
  if (typeof value === 'number' || typeof value === 'bigint') return decimal(value, work);
  if (value instanceof Float) return writeFloat(value.value);
  const text = asText(value);
  if (text !== undefined) return writeString(text, style, work);
  if (value instanceof Dict) {
    const entries = value.entries().map(([key, item]) => [keyText(key, work), item] as const);
    if (style.sortKeys) entries.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    const parts = entries.map(
      ([key, item]) => writeString(key, style, work) + style.keySeparator + write(item, style, work, depth + 1),
    );
    return bracket('{', parts, '}', style, work, depth);
  }
  if (value instanceof Sequence && (value.kind === 'list' || value.kind === 'tuple')) {
    const parts = value.items.map((item) => write(item, style, work, depth + 1));
    return bracket('[', parts, ']', style, work, depth);
  }
  return fail(`a value of type ${typeName(value)} is not JSON serializable`);
}

function bracket(open: string, parts: string[], close: string, style: JsonStyle, work: Work, depth: number): string {
  if (parts.length === 0) return open + close;
  if (style.indent === undefined) {
    const joined = parts.join(style.itemSeparator);
    work.chargeText(joined.length);
    return open + joined + close;
  }
  work.chargeText(style.indent.length * (depth + 2) * (parts.length + 1));
  const outer = `\n${style.indent.repeat(depth)}`;
  const inner = `\n${style.indent.repeat(depth + 1)}`;
  const joined = parts.join(style.itemSeparator + inner);
  work.chargeText(joined.length);
  return open + inner + joined + outer + close;
}

function writeFloat(value: number): string {
  if (Number.isFinite(value)) return floatRepr(value);
  return Number.isNaN(value) ? 'NaN' : value > 0 ? 'Infinity' : '-Infinity';
}

function keyText(key: Value, work: Work): string {
  const text = asText(key);
  if (text !== undefined) return text;
  if (key instanceof None) return 'null';
  if (typeof key === 'boolean') return key ? 'true' : 'false';
  if (key instanceof Float) return writeFloat(key.value);
  return decimal(key as number | bigint, work);
}

function writeString(text: string, style: JsonStyle, work: Work): string {
  work.chargeText(text.length);
  const json = JSON.stringify(text);
  if (!style.ensureAscii) return json;
  return json.replace(/[\x7f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
