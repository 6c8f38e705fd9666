import type { HeaderCursor } from './header-cursor.js';
import type { GgufArray, GgufValue } from './metadata.js';

const STRING = 8;
const ARRAY = 9;
const BOOL = 7;

/** Deeper nesting than arrays of arrays of arrays of arrays has no use; it is how a damaged file exhausts the stack. */
const MAX_ARRAY_DEPTH = 4;
/** Strings, booleans and nested arrays cost a JavaScript value each: far above the largest vocabulary, far below memory. */
const MAX_BOXED_ELEMENTS = 1 << 24;
const MAX_NESTED_ARRAYS = 1 << 16;

interface NumericType {
  readonly bytes: number;
  readonly scalar: (cursor: HeaderCursor) => number | bigint;
  readonly array: (data: ArrayBuffer) => GgufArray;
}

const NUMERIC_TYPES: ReadonlyMap<number, NumericType> = new Map<number, NumericType>([
  [0, { bytes: 1, scalar: (c) => c.u8(), array: (data) => new Uint8Array(data) }],
  [1, { bytes: 1, scalar: (c) => c.i8(), array: (data) => new Int8Array(data) }],
  [2, { bytes: 2, scalar: (c) => c.u16(), array: (data) => new Uint16Array(data) }],
  [3, { bytes: 2, scalar: (c) => c.i16(), array: (data) => new Int16Array(data) }],
  [4, { bytes: 4, scalar: (c) => c.u32(), array: (data) => new Uint32Array(data) }],
  [5, { bytes: 4, scalar: (c) => c.i32(), array: (data) => new Int32Array(data) }],
  [6, { bytes: 4, scalar: (c) => c.f32(), array: (data) => new Float32Array(data) }],
  [10, { bytes: 8, scalar: (c) => c.u64(), array: (data) => new BigUint64Array(data) }],
  [11, { bytes: 8, scalar: (c) => c.i64(), array: (data) => new BigInt64Array(data) }],
  [12, { bytes: 8, scalar: (c) => c.f64(), array: (data) => new Float64Array(data) }],
]);

/**
 * Reads the values of one file's metadata. Text must be UTF-8, except the strings of a `tokenizer.` array, where bytes
 * that are not UTF-8 are kept as `decodeText` describes.
 */
export class MetadataValueReader {
  private nestedArrays = 0;

  /** @param skipsTokens leave the strings of `tokenizer.` arrays empty: decoding a vocabulary takes some 60 ms */
  constructor(
    private readonly cursor: HeaderCursor,
    private readonly skipsTokens = false,
  ) {}

  /** The value type id and the value of the metadata key `key`. */
  read(key: string): GgufValue {
    const offset = this.cursor.position;
    const type = this.cursor.u32();
    if (type === STRING) return this.cursor.string();
    if (type === BOOL) return this.boolean();
    if (type === ARRAY) return this.array(key.startsWith('tokenizer.'), 1);
    return this.numeric(type, offset).scalar(this.cursor);
  }

  private array(escapeInvalid: boolean, depth: number): GgufArray {
    const { cursor } = this;
    const offset = cursor.position;
    const type = cursor.u32();
    if (type === STRING) {
      const count = cursor.count('strings', 8, MAX_BOXED_ELEMENTS);
      if (escapeInvalid && this.skipsTokens) {
        for (let left = count; left > 0; left--) cursor.skipString();
        return new Array<string>(count).fill('');
      }
      const strings: string[] = [];
      for (let left = count; left > 0; left--) strings.push(cursor.string(escapeInvalid));
      return strings;
    }
    if (type === BOOL) {
      const booleans: boolean[] = [];
      for (let left = cursor.count('booleans', 1, MAX_BOXED_ELEMENTS); left > 0; left--) booleans.push(this.boolean());
      return booleans;
    }
    if (type === ARRAY) {
      if (depth === MAX_ARRAY_DEPTH) cursor.fail(`nests arrays deeper than ${MAX_ARRAY_DEPTH}`, offset);
      const arrays: GgufArray[] = [];
      for (let left = cursor.count('arrays', 12, MAX_NESTED_ARRAYS); left > 0; left--) {
        this.nestedArrays += 1;
        if (this.nestedArrays > MAX_NESTED_ARRAYS) cursor.fail(`has more than ${MAX_NESTED_ARRAYS} nested arrays`);
        arrays.push(this.array(escapeInvalid, depth + 1));
      }
      return arrays;
    }
    const { bytes, array } = this.numeric(type, offset);
    const length = cursor.count('numbers', bytes) * bytes;
    // A copy: typed arrays need aligned storage, and a view would keep the whole read buffer alive.
    const copy = new Uint8Array(length);
    copy.set(cursor.bytes(length));
    return array(copy.buffer);
  }

  private boolean(): boolean {
    const offset = this.cursor.position;
    const byte = this.cursor.u8();
    if (byte > 1) this.cursor.fail(`has the boolean ${byte}, which is neither 0 nor 1`, offset);
    return byte === 1;
  }

  private numeric(type: number, offset: number): NumericType {
    return NUMERIC_TYPES.get(type) ?? this.cursor.fail(`has the unknown value type ${type}`, offset);
  }
}
