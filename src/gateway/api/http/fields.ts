import { integerOf } from '../../../lib/json/decimal.js';
import {
  isJsonNumeric,
  isJsonObject,
  type JsonNumeric,
  jsonText,
  numberText,
  roundedNumbers,
} from '../../../lib/json/exact-json.js';
import { RocmForgeError } from '../../../shared/errors.js';
import { FieldPolicy } from './field-policy.js';

/**
 * The fields of a JSON object that came from outside. Each is read by name and type; {@link end} refuses or ignores those that
 * were not read, as the policy of the request says. `null` means absent: clients send it for what they leave open.
 */
export class Fields {
  private readonly values: Readonly<Record<string, unknown>>;
  private readonly known = new Set<string>();

  /**
   * @param place  where the object stands, such as `messages[0]`; empty for the request
   * @param policy what happens to unknown fields; default: they are refused
   * @throws RocmForgeError `INVALID_FIELD`
   */
  constructor(
    value: unknown,
    private readonly place = '',
    readonly policy = new FieldPolicy(true),
  ) {
    if (!isJsonObject(value)) {
      const field = place || 'request';
      throw new RocmForgeError('INVALID_FIELD', `${field} is ${shownValue(value)}; it must be a JSON object`, {
        field,
      });
    }
    this.values = value;
  }

  has(name: string): boolean {
    return Object.hasOwn(this.values, name) && this.values[name] !== null;
  }

  /** The field as it is: a number may be a {@link JsonNumber}. */
  any(name: string): unknown {
    this.known.add(name);
    return this.has(name) ? this.values[name] : undefined;
  }

  /** The field with each number as the nearest double: for numbers that are computed with. */
  rounded(name: string): unknown {
    return roundedNumbers(this.any(name));
  }

  /** The JSON of an object, as it was written. @param what what it must be, for the refusal */
  objectText(name: string, what = 'a JSON object'): string | undefined {
    const value = this.typed(name, what, isJsonObject);
    return value === undefined ? undefined : jsonText(value);
  }

  string(name: string): string | undefined {
    return this.typed(name, 'a string', (value) => typeof value === 'string') as string | undefined;
  }

  boolean(name: string): boolean | undefined {
    return this.typed(name, 'true or false', (value) => typeof value === 'boolean') as boolean | undefined;
  }

  number(name: string): number | undefined {
    const value = this.typed(name, 'a number', isJsonNumeric) as JsonNumeric | undefined;
    return value === undefined ? undefined : Number(numberText(value));
  }

  /** A whole number from `least` to `most`. */
  integer(name: string, least: number, most: number): number | undefined {
    const value = this.bigint(name, BigInt(least), BigInt(most));
    return value === undefined ? undefined : Number(value);
  }

  /** A whole number from `least` to `most`, exactly. */
  bigint(name: string, least: bigint, most: bigint): bigint | undefined {
    const isOne = (value: unknown) => {
      const integer = integerOf(value);
      return integer !== undefined && integer >= least && integer <= most;
    };
    return integerOf(this.typed(name, `a whole number from ${least} to ${most}`, isOne));
  }

  /** @param what what else it may be, for the refusal */
  list(name: string, what = 'a list'): readonly unknown[] | undefined {
    return this.typed(name, what, Array.isArray) as readonly unknown[] | undefined;
  }

  strings(name: string): readonly string[] | undefined {
    const are = (value: unknown) => Array.isArray(value) && value.every((item) => typeof item === 'string');
    return this.typed(name, 'a list of strings', are) as readonly string[] | undefined;
  }

  /** Token ids. */
  ids(name: string): readonly number[] | undefined {
    const ids = this.rounded(name);
    return ids === undefined || areIds(ids) ? ids : this.refuse(name, 'must be a list of token ids');
  }

  object(name: string): Fields | undefined {
    const value = this.any(name);
    return value === undefined ? undefined : new Fields(value, this.nameOf(name), this.policy);
  }

  /** Objects of a list, of at most {@link MOST_OBJECTS}. */
  objects(name: string, what?: string): readonly Fields[] | undefined {
    const list = this.list(name, what);
    if (list !== undefined && list.length > MOST_OBJECTS) {
      this.refuse(name, `has ${list.length} entries, more than the ${MOST_OBJECTS} allowed`);
    }
    return list?.map((item, i) => new Fields(item, `${this.nameOf(name)}[${i}]`, this.policy));
  }

  /**
   * Notes how the request names a field of the public API, for errors that are found after it was read.
   *
   * @param names the first that is there is meant; if none is, the first
   */
  standsFor(field: string, ...names: readonly [string, ...(readonly string[])]): void {
    const [first] = names;
    this.policy.fieldNames[field] = this.nameOf(names.find((name) => this.has(name)) ?? first);
  }

  /** Fields that say nothing about the answer, such as whom it is for. */
  ignore(...names: readonly string[]): void {
    for (const name of names) this.known.add(name);
  }

  /** A field that is taken with one of these values, because they ask for what is done anyway. */
  mustBe(name: string, ...taken: readonly (string | number | boolean)[]): void {
    const value = this.rounded(name);
    if (value === undefined || taken.includes(value as string)) return;
    this.refuse(name, `must be ${taken.map((one) => JSON.stringify(one)).join(' or ')}`);
  }

  /** @param what a predicate; if it is "must be …", the message also has the value. @throws RocmForgeError `INVALID_FIELD` */
  refuse(name: string, what: string): never {
    const field = this.nameOf(name);
    const isShown = what.startsWith('must be ') && this.has(name);
    const message = isShown ? `${field} is ${shownValue(this.values[name])}; it ${what}` : `${field} ${what}`;
    throw new RocmForgeError('INVALID_FIELD', message, { field });
  }

  /** @throws RocmForgeError `NOT_IMPLEMENTED` where one of these is there: they are known and not built */
  unsupported(...names: readonly string[]): void {
    for (const name of names) {
      this.known.add(name);
      if (!this.has(name)) continue;
      const field = this.nameOf(name);
      throw new RocmForgeError('NOT_IMPLEMENTED', `${field} is not supported`, { field });
    }
  }

  /** Lists that are known and not supported: an empty one asks for nothing. @throws RocmForgeError `NOT_IMPLEMENTED` */
  mustBeEmpty(...names: readonly string[]): void {
    for (const name of names) {
      const value = this.any(name);
      if (!Array.isArray(value) || value.length > 0) this.unsupported(name);
    }
  }

  /**
   * Fields that are known and have no effect here, though the answer is what was asked for: reported where they are there, and
   * refused by a strict policy.
   */
  reportIgnored(...names: readonly string[]): void {
    for (const name of names) {
      this.known.add(name);
      if (this.has(name)) this.unread(name);
    }
  }

  /** Refuses or ignores the fields that were not read. @throws RocmForgeError `INVALID_FIELD` for the first, if the policy is strict */
  end(): void {
    for (const name of Object.keys(this.values)) {
      if (!this.known.has(name)) this.unread(name);
    }
  }

  /** The same, unless the field has one of these values, which ask for what is done anyway. */
  reportUnless(name: string, ...taken: readonly (string | number | boolean)[]): void {
    if (!taken.includes(this.rounded(name) as string)) this.reportIgnored(name);
  }

  private unread(name: string): void {
    if (this.policy.isStrict) this.refuse(name.slice(0, MOST_NAME), 'is an unknown parameter; leave it out');
    if (this.has(name)) this.policy.ignore(this.nameOf(name));
  }

  private typed(name: string, what: string, is: (value: unknown) => boolean): unknown {
    const value = this.any(name);
    if (value !== undefined && !is(value)) this.refuse(name, `must be ${what}`);
    return value;
  }

  nameOf(name: string): string {
    return this.place === '' ? name : `${this.place}.${name}`;
  }
}

/** Content of a message, for a refusal. */
export const TEXT_OR_PARTS = 'a string or a list of parts';

/** Entries of a list of objects, each of which costs much more than its bytes; messages have a limit of as many. */
const MOST_OBJECTS = 4096;

/** Characters of an unknown field's name that an error repeats, and of a value. */
const MOST_NAME = 64;
const MOST_VALUE = 32;

/** A value for an error's message: never more than a few characters of it. */
function shownValue(value: unknown): string {
  if (Array.isArray(value)) return 'a list';
  if (isJsonObject(value)) return 'an object';
  const text = typeof value === 'string' ? JSON.stringify(value.slice(0, MOST_VALUE)) : jsonText(value);
  return text.length > 2 * MOST_VALUE ? `${text.slice(0, MOST_VALUE)}…` : text;
}

/** True if a value is a list of numbers that may be token ids. */
export function areIds(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every((id) => Number.isInteger(id) && id >= 0 && id < 2 ** 32);
}
