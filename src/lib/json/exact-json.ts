/**
 * A number of JSON that no JavaScript number is spelled as: an integer beyond 2^53, `1.0`, `-0`, `1e2`, a decimal of more digits than a
 * double has. Every other number is a JavaScript number.
 */
export class JsonNumber {
  /** @param text the number as it was written */
  constructor(readonly text: string) {}

  toString(): string {
    return this.text;
  }

  /** Nothing but {@link jsonText} writes it: a rounded number must not leave by mistake. @throws Error always */
  toJSON(): never {
    throw new Error(`the number ${this.text} must be written by jsonText`);
  }
}

export type JsonNumeric = number | JsonNumber;

/** Has no prototype; its keys are listed in the order in which they were written, integers too. */
export type JsonObject = { readonly [name: string]: Json };

export type Json = null | boolean | string | JsonNumeric | readonly Json[] | JsonObject;

/** JSON nested deeper than the reader allows. */
export class JsonDepthError extends SyntaxError {
  /**
   * @param depth the limit, in levels of arrays and objects
   * @param member the member of the outermost object in which the limit was reached; undefined where the outermost value is an array
   */
  constructor(
    readonly depth: number,
    readonly member: string | undefined,
  ) {
    super(`nested deeper than ${depth} levels`);
  }
}

/** Levels of arrays and objects that {@link parseJson} reads: more than any schema, tool or variable may have. */
export const MAX_JSON_DEPTH = 256;

/** Makes the values that {@link readJson} returns. */
export interface JsonMaker<T> {
  string(text: string): T;
  /** @param text the number as it was written */
  number(text: string): T;
  constant(value: boolean | null): T;
  array(items: T[]): T;
  /** @param members by key, in the order in which the keys first came; of a key that came twice the last value */
  object(members: Map<string, T>): T;
}

const MAKE_JSON: JsonMaker<Json> = {
  string: (text) => text,
  number: numberOf,
  constant: (value) => value,
  array: (items) => items,
  object: objectOf,
};

/**
 * Reads JSON without loss: numbers keep their spelling, objects the order of their keys. Of a key that comes twice the last value counts,
 * as for `JSON.parse`.
 *
 * @throws SyntaxError with the position, for text that is not JSON
 * @throws JsonDepthError beyond {@link MAX_JSON_DEPTH} levels
 */
export function parseJson(text: string): Json {
  return parseJsonWithin(text, MAX_JSON_DEPTH);
}

/** The same with another limit, in levels of arrays and objects. A function of its own, as `parseJson` is given to `map`. */
export function parseJsonWithin(text: string, maxDepth: number): Json {
  return readJson(text, MAKE_JSON, maxDepth);
}

/** True if a value is an object of JSON: neither null, a list nor a number. */
export function isJsonObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof JsonNumber);
}

export function isJsonNumeric(value: unknown): value is JsonNumeric {
  return typeof value === 'number' || value instanceof JsonNumber;
}

/** A number as it was written. */
export function numberText(value: JsonNumeric): string {
  return value instanceof JsonNumber ? value.text : String(value);
}

/** Compact JSON of a value: numbers as they were written, keys in the order in which they were. */
export function jsonText(value: unknown): string {
  if (value instanceof JsonNumber) return value.text;
  if (Array.isArray(value)) return `[${value.map(jsonText).join(',')}]`;
  if (!isJsonObject(value)) return JSON.stringify(value);
  const members = Object.keys(value).map((key) => `${JSON.stringify(key)}:${jsonText(value[key])}`);
  return `{${members.join(',')}}`;
}

/** A value with each number as the nearest double, for readers that compute with numbers. The value itself where it has no other numbers. */
export function roundedNumbers(value: unknown): unknown {
  if (value instanceof JsonNumber) return Number(value.text);
  if (Array.isArray(value)) {
    const items = value.map(roundedNumbers);
    return items.every((item, index) => item === value[index]) ? value : items;
  }
  if (!isJsonObject(value)) return value;
  const members = Object.keys(value).map((key) => [key, roundedNumbers(value[key])] as const);
  return members.every(([key, member]) => member === value[key])
    ? value
    : objectOf(new Map(members as [string, Json][]));
}

function numberOf(text: string): JsonNumeric {
  const value = Number(text);
  const isExact = String(value) === text && (Number.isSafeInteger(value) || !Number.isInteger(value));
  return isExact ? value : new JsonNumber(text);
}

function objectOf(members: Map<string, Json>): JsonObject {
  const object: Record<string, Json> = Object.create(null);
  let mayBeIndex = false;
  for (const [key, value] of members) {
    object[key] = value;
    mayBeIndex ||= /^\d/.test(key);
  }
  // JavaScript lists keys that are indices first, in ascending order.
  if (!mayBeIndex) return object;
  const written = [...members.keys()];
  if (Object.keys(object).every((key, index) => key === written[index])) return object;
  return new Proxy(object, { ownKeys: () => written });
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?/y;
const LITERALS: readonly (readonly [string, boolean | null])[] = [
  ['true', true],
  ['false', false],
  ['null', null],
];

/**
 * Reads JSON into values of the caller's. It does not recurse: the depth of a text costs no stack.
 *
 * @param maxDepth levels of arrays and objects
 * @throws SyntaxError with the position, for text that is not JSON; what `make` throws
 * @throws JsonDepthError beyond the depth
 */
export function readJson<T>(text: string, make: JsonMaker<T>, maxDepth: number): T {
  return new JsonReader(text, make, maxDepth).read();
}

/** An array or object that has begun. */
type Open<T> =
  | { readonly items: T[]; readonly members?: undefined }
  | { readonly items?: undefined; readonly members: Map<string, T>; key: string };

class JsonReader<T> {
  private at = 0;
  private readonly open: Open<T>[] = [];

  constructor(
    private readonly text: string,
    private readonly make: JsonMaker<T>,
    private readonly maxDepth: number,
  ) {}

  read(): T {
    for (;;) {
      this.skipSpace();
      let value = this.value();
      while (value !== undefined) {
        const container = this.open.at(-1);
        if (container === undefined) return this.end(value);
        if (container.members === undefined) container.items.push(value.made);
        else container.members.set(container.key, value.made);
        value = this.afterItem(container);
      }
    }
  }

  /** @returns the value that stands here; undefined where an array or object with something in it begins */
  private value(): { readonly made: T } | undefined {
    const { text, make } = this;
    switch (text[this.at]) {
      case '"':
        return { made: make.string(this.string()) };
      case '[': {
        this.deepen();
        const items: T[] = [];
        if (this.skip(']')) return { made: make.array(items) };
        this.open.push({ items });
        return undefined;
      }
      case '{': {
        this.deepen();
        const members = new Map<string, T>();
        if (this.skip('}')) return { made: make.object(members) };
        this.open.push({ members, key: this.key() });
        return undefined;
      }
      default:
        return { made: this.scalar() };
    }
  }

  /** Steps over the bracket that begins an array or object. */
  private deepen(): void {
    if (this.open.length >= this.maxDepth) throw new JsonDepthError(this.maxDepth, keyOf(this.open[0]));
    this.at += 1;
    this.skipSpace();
  }

  /** @returns the container where it ends here; undefined where another item follows */
  private afterItem(container: Open<T>): { readonly made: T } | undefined {
    this.skipSpace();
    if (this.skip(',')) {
      if (container.members === undefined) return undefined;
      this.skipSpace();
      container.key = this.key();
      return undefined;
    }
    const { make } = this;
    if (!this.skip(container.members === undefined ? ']' : '}')) {
      this.fail(`expected "," or "${container.members === undefined ? ']' : '}'}"`);
    }
    this.open.pop();
    return { made: container.members === undefined ? make.array(container.items) : make.object(container.members) };
  }

  /** A key and its colon. */
  private key(): string {
    if (this.text[this.at] !== '"') this.fail('expected a string');
    const key = this.string();
    this.skipSpace();
    if (!this.skip(':')) this.fail('expected ":"');
    return key;
  }

  private string(): string {
    const { text } = this;
    const start = this.at;
    let end = start + 1;
    let isPlain = true;
    for (; ; end++) {
      const unit = text.charCodeAt(end);
      if (unit === QUOTE) break;
      if (unit === BACKSLASH) {
        isPlain = false;
        end += 1;
      } else if (!(unit >= SPACE)) return this.fail(end < text.length ? 'a control character in a string' : UNENDED);
    }
    this.at = end + 1;
    if (isPlain) return text.slice(start + 1, end);
    try {
      return JSON.parse(text.slice(start, end + 1)) as string;
    } catch {
      this.at = start;
      return this.fail('a string has an invalid escape');
    }
  }

  private scalar(): T {
    NUMBER.lastIndex = this.at;
    const number = NUMBER.exec(this.text)?.[0];
    if (number !== undefined) {
      this.at += number.length;
      return this.make.number(number);
    }
    for (const [name, value] of LITERALS) if (this.skip(name)) return this.make.constant(value);
    return this.fail(this.at < this.text.length ? 'unexpected character' : 'unexpected end');
  }

  private end({ made }: { readonly made: T }): T {
    this.skipSpace();
    if (this.at < this.text.length) this.fail('unexpected text behind the value');
    return made;
  }

  private skip(expected: string): boolean {
    const isThere = this.text.startsWith(expected, this.at);
    if (isThere) this.at += expected.length;
    return isThere;
  }

  private skipSpace(): void {
    for (;;) {
      const unit = this.text.charCodeAt(this.at);
      if (unit !== SPACE && unit !== TAB && unit !== LINE_FEED && unit !== RETURN) return;
      this.at += 1;
    }
  }

  private fail(problem: string): never {
    throw new SyntaxError(`${problem} at position ${this.at}`);
  }
}

const keyOf = <T>(container: Open<T> | undefined) => (container?.members === undefined ? undefined : container.key);

const UNENDED = 'a string is not ended';
const TAB = 0x09;
const LINE_FEED = 0x0a;
const RETURN = 0x0d;
const SPACE = 0x20;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
