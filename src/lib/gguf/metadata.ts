import { GgufError } from './error.js';

/**
 * A GGUF metadata value as JavaScript sees it: every number that a double holds exactly is a `number`, 64-bit integers
 * beyond that are `bigint`; arrays of numbers are typed arrays, arrays of strings are `string[]`.
 */
export type GgufValue = number | bigint | boolean | string | GgufArray;

export type GgufArray =
  | readonly string[]
  | readonly boolean[]
  | readonly GgufArray[]
  | Uint8Array
  | Int8Array
  | Uint16Array
  | Int16Array
  | Uint32Array
  | Int32Array
  | Float32Array
  | Float64Array
  | BigUint64Array
  | BigInt64Array;

/** Key-value pairs of a GGUF file with typed access; a value of the wrong type is `GGUF_INVALID`, naming the key. */
export class GgufMetadata {
  private readonly asked = new Set<string>();

  /** @param file what messages call the file these entries came from */
  constructor(
    private readonly entries: ReadonlyMap<string, GgufValue>,
    private readonly file = 'metadata',
  ) {}

  has(key: string): boolean {
    this.asked.add(key);
    return this.entries.has(key);
  }

  get(key: string): GgufValue | undefined {
    this.asked.add(key);
    return this.entries.get(key);
  }

  keys(): Iterable<string> {
    return this.entries.keys();
  }

  /** All entries. Whoever goes through them asks for none. */
  [Symbol.iterator](): Iterator<readonly [key: string, value: GgufValue]> {
    return this.entries[Symbol.iterator]();
  }

  /** The same entries, none of which has been asked for. */
  fresh(): GgufMetadata {
    return new GgufMetadata(this.entries, this.file);
  }

  /** The entries whose keys begin so and that nobody has asked this object for. */
  unasked(prefix: string): readonly (readonly [key: string, value: GgufValue])[] {
    return [...this.entries].filter(([key]) => key.startsWith(prefix) && !this.asked.has(key));
  }

  string(key: string): string | undefined {
    return this.typed(key, 'a string', (value): value is string => typeof value === 'string');
  }

  number(key: string): number | undefined {
    return this.typed(key, 'a number', (value): value is number => typeof value === 'number');
  }

  boolean(key: string): boolean | undefined {
    return this.typed(key, 'a boolean', (value): value is boolean => typeof value === 'boolean');
  }

  strings(key: string): readonly string[] | undefined {
    return this.typed(
      key,
      'an array of strings',
      (value): value is readonly string[] =>
        Array.isArray(value) && (value.length === 0 || typeof value[0] === 'string'),
    );
  }

  /** Numbers of any width as one readable array; 64-bit arrays are not converted and count as the wrong type. */
  numbers(key: string): ArrayLike<number> | undefined {
    return this.typed(
      key,
      'an array of numbers',
      (value): value is Exclude<GgufArray, readonly unknown[] | BigUint64Array | BigInt64Array> =>
        ArrayBuffer.isView(value) && !(value instanceof BigUint64Array) && !(value instanceof BigInt64Array),
    );
  }

  private typed<T extends GgufValue>(
    key: string,
    expected: string,
    is: (value: GgufValue) => value is T,
  ): T | undefined {
    const value = this.get(key);
    if (value === undefined) return undefined;
    if (!is(value)) {
      throw new GgufError('GGUF_INVALID', `${this.file}: metadata key "${key}" is not ${expected}`, { key });
    }
    return value;
  }
}
