import { closeSync, openSync, writeSync } from 'node:fs';
import { MemoryByteSource } from '../../src/lib/gguf/byte-source.js';
import { type GgufFile, readGguf } from '../../src/lib/gguf/reader.js';
import { TENSOR_TYPES, type TensorTypeName, tensorBytes } from '../../src/lib/gguf/tensor-types.js';

/** A metadata value with the type it gets in the file. Make one with {@link typed}. */
export interface TypedValue {
  readonly typeId: number;
  readonly payload: Buffer;
}

/** Strings, booleans and string lists need no type; a plain number becomes u32 when it fits, else i32 or f32. */
export type BuilderValue = string | boolean | number | readonly string[] | TypedValue;

const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
};

const u64 = (value: number | bigint): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt.asUintN(64, BigInt(value)));
  return bytes;
};

const text = (value: string | Uint8Array): Buffer => {
  const bytes = typeof value === 'string' ? Buffer.from(value, 'utf8') : value;
  return Buffer.concat([u64(bytes.length), bytes]);
};

function scalar(typeId: number, bytes: number, write: (target: DataView) => void): TypedValue {
  const payload = Buffer.alloc(bytes);
  write(new DataView(payload.buffer, payload.byteOffset, bytes));
  return { typeId, payload };
}

function arrayValue(elements: readonly TypedValue[]): TypedValue {
  const head = [u32(elements[0]?.typeId ?? 0), u64(elements.length)];
  return { typeId: 9, payload: Buffer.concat([...head, ...elements.map(({ payload }) => payload)]) };
}

/** Values of every metadata type: `typed.u8(7)`, `typed.array(typed.i32(-1), typed.i32(2))`. */
export const typed = {
  u8: (value: number) => scalar(0, 1, (view) => view.setUint8(0, value)),
  i8: (value: number) => scalar(1, 1, (view) => view.setInt8(0, value)),
  u16: (value: number) => scalar(2, 2, (view) => view.setUint16(0, value, true)),
  i16: (value: number) => scalar(3, 2, (view) => view.setInt16(0, value, true)),
  u32: (value: number) => scalar(4, 4, (view) => view.setUint32(0, value, true)),
  i32: (value: number) => scalar(5, 4, (view) => view.setInt32(0, value, true)),
  f32: (value: number) => scalar(6, 4, (view) => view.setFloat32(0, value, true)),
  bool: (value: boolean | number) => scalar(7, 1, (view) => view.setUint8(0, Number(value))),
  /** Bytes are written as they are, also when they are not UTF-8. */
  string: (value: string | Uint8Array): TypedValue => ({ typeId: 8, payload: text(value) }),
  u64: (value: bigint) => scalar(10, 8, (view) => view.setBigUint64(0, value, true)),
  i64: (value: bigint) => scalar(11, 8, (view) => view.setBigInt64(0, value, true)),
  f64: (value: number) => scalar(12, 8, (view) => view.setFloat64(0, value, true)),
  /** An array of the first element's type; `[]` is an array of no u8. */
  array: (...elements: readonly TypedValue[]): TypedValue => arrayValue(elements),
  /** `typed.arrayOf(typed.f32, scores)`: as many elements as needed. */
  arrayOf: <T>(element: (value: T) => TypedValue, values: readonly T[]): TypedValue => arrayValue(values.map(element)),
  strings: (values: readonly (string | Uint8Array)[]): TypedValue => ({
    typeId: 9,
    payload: Buffer.concat([u32(8), u64(values.length), ...values.map(text)]),
  }),
  /** Any type id over any bytes, for files that are wrong on purpose. */
  raw: (typeId: number, payload: Uint8Array): TypedValue => ({ typeId, payload: Buffer.from(payload) }),
};

function withType(value: BuilderValue): TypedValue {
  if (typeof value === 'string') return typed.string(value);
  if (typeof value === 'boolean') return typed.bool(value);
  if (typeof value === 'object') return 'typeId' in value ? value : typed.strings(value);
  if (!Number.isInteger(value)) return typed.f32(value);
  return value < 0 ? typed.i32(value) : typed.u32(value);
}

interface TensorSpec {
  readonly type?: TensorTypeName;
  /** GGUF order, innermost first. */
  readonly dims: readonly (number | bigint)[];
  /** The tensor's bytes, normally as many as type and dims say; zeros when left out. */
  readonly data?: Uint8Array;
  /** Overrides of what a correct writer would put, for files that are wrong on purpose. */
  readonly typeId?: number;
  readonly relativeOffset?: number | bigint;
}

interface FileSpec {
  readonly name?: string;
  readonly version?: number;
  /** Overrides of what a correct writer would put. */
  readonly tensorCount?: number | bigint;
  readonly metadataCount?: number | bigint;
  readonly magic?: string;
}

/**
 * Writes small GGUF files for tests, right by default and wrong where asked:
 *
 *     const file = new GgufBuilder().set('general.architecture', 'llama').tensor('a', { dims: [4] }).read();
 */
export class GgufBuilder {
  private readonly entries: [string | Uint8Array, TypedValue][] = [];
  private readonly tensors: [string, TensorSpec][] = [];

  constructor(private readonly spec: FileSpec = {}) {}

  /** Sets a key, in its old place when it was there; `undefined` removes it. */
  set(key: string, value: BuilderValue | undefined): this {
    const at = this.entries.findIndex(([existing]) => existing === key);
    const fresh: [string, TypedValue][] = value === undefined ? [] : [[key, withType(value)]];
    this.entries.splice(at < 0 ? this.entries.length : at, at < 0 ? 0 : 1, ...fresh);
    return this;
  }

  setAll(values: Readonly<Record<string, BuilderValue | undefined>>): this {
    for (const [key, value] of Object.entries(values)) this.set(key, value);
    return this;
  }

  /** Appends a key even when it is there already; bytes need not be UTF-8. */
  append(key: string | Uint8Array, value: BuilderValue): this {
    this.entries.push([key, withType(value)]);
    return this;
  }

  /** Appends a tensor, F32 and zero unless said otherwise, placed after the one before. */
  tensor(name: string, spec: TensorSpec): this {
    this.tensors.push([name, spec]);
    return this;
  }

  /** Gives a tensor another type, and other bytes: zeros when left out. */
  retype(name: string, type: TensorTypeName, data?: Uint8Array): this {
    const at = this.tensors.findIndex(([existing]) => existing === name);
    this.tensors[at] = [name, { type, dims: this.tensors[at]![1].dims, ...(data && { data }) }];
    return this;
  }

  /** Leaves a tensor out. */
  without(name: string): this {
    this.tensors.splice(
      this.tensors.findIndex(([existing]) => existing === name),
      1,
    );
    return this;
  }

  /**
   * The parts that llama.cpp's llama-gguf-split makes of the file: all metadata in the first, the tensors in their order,
   * as many in each as come out even.
   *
   * @param inFirst tensors in the first part; 0 is what its --no-tensor-first-split does
   */
  split(count: number, inFirst = Math.ceil(this.tensors.length / count)): GgufBuilder[] {
    const each = Math.ceil((this.tensors.length - inFirst) / (count - 1));
    return Array.from({ length: count }, (_, index) => {
      const part = new GgufBuilder(this.spec);
      if (index === 0) part.entries.push(...this.entries);
      part.setAll({
        'split.no': typed.u16(index),
        'split.count': typed.u16(count),
        'split.tensors.count': typed.i32(this.tensors.length),
      });
      const from = index === 0 ? 0 : inFirst + (index - 1) * each;
      part.tensors.push(...this.tensors.slice(from, index === 0 ? inFirst : from + each));
      return part;
    });
  }

  /** Its tensors without data, in their order. */
  get withoutData(): readonly { readonly name: string; readonly dims: readonly number[] }[] {
    return this.tensors
      .filter(([, { data }]) => data === undefined)
      .map(([name, { dims }]) => ({ name, dims: dims.map(Number) }));
  }

  /** The names of its tensors, in their order. */
  get tensorNames(): readonly string[] {
    return this.tensors.map(([name]) => name);
  }

  /** The whole file. */
  build(): Uint8Array {
    const parts: Uint8Array[] = [this.header((spec) => spec.data?.length ?? zeros(spec).length)];
    for (const [, spec] of this.tensors) {
      const bytes = spec.data ?? zeros(spec);
      parts.push(bytes, Buffer.alloc(padding(bytes.length, this.alignment())));
    }
    return Buffer.concat(parts);
  }

  /**
   * Writes a file of any size: no tensor is ever held whole.
   *
   * @param bytesOf a tensor that has no data
   */
  write(
    file: string,
    bytesOf: (name: string, type: TensorTypeName, dims: readonly number[]) => Iterable<Uint8Array>,
  ): void {
    const descriptor = openSync(file, 'w');
    const bytesIn = ({ type = 'F32', dims }: TensorSpec): number => tensorBytes(type, dims.map(Number));
    try {
      writeAll(descriptor, this.header(bytesIn));
      for (const [name, spec] of this.tensors) {
        const pieces = spec.data === undefined ? bytesOf(name, spec.type ?? 'F32', spec.dims.map(Number)) : [spec.data];
        for (const piece of pieces) writeAll(descriptor, piece);
        writeAll(descriptor, Buffer.alloc(padding(bytesIn(spec), this.alignment())));
      }
    } finally {
      closeSync(descriptor);
    }
  }

  /** Header: all but the tensors' bytes. */
  private header(bytesIn: (spec: TensorSpec) => number): Buffer {
    const { magic = 'GGUF', version = 3 } = this.spec;
    const alignment = this.alignment();
    const parts: Uint8Array[] = [
      Buffer.from(magic, 'latin1'),
      u32(version),
      u64(this.spec.tensorCount ?? this.tensors.length),
      u64(this.spec.metadataCount ?? this.entries.length),
    ];
    for (const [key, { typeId, payload }] of this.entries) parts.push(text(key), u32(typeId), payload);
    let offset = 0;
    for (const [name, spec] of this.tensors) {
      parts.push(text(name), u32(spec.dims.length), ...spec.dims.map(u64));
      parts.push(u32(spec.typeId ?? TENSOR_TYPES[spec.type ?? 'F32'].id), u64(spec.relativeOffset ?? offset));
      const bytes = bytesIn(spec);
      offset += bytes + padding(bytes, alignment);
    }
    const header = Buffer.concat(parts);
    return Buffer.concat([header, Buffer.alloc(padding(header.length, alignment))]);
  }

  source(): MemoryByteSource {
    return new MemoryByteSource(this.build(), this.spec.name ?? 'test.gguf');
  }

  /** The file as our reader sees it. */
  read(): GgufFile {
    return readGguf(this.source());
  }

  private alignment(): number {
    const value = this.entries.find(([key]) => key === 'general.alignment')?.[1];
    const bytes = value?.typeId === 4 ? value.payload.readUInt32LE() : 32;
    return bytes > 0 && bytes <= 4096 ? bytes : 32;
  }
}

/** A builder with the metadata of a 2-layer llama (hidden 64, 4 heads, 2 kv heads, vocabulary 96) and two tensors. */
export function tinyLlama(overrides: Readonly<Record<string, BuilderValue | undefined>> = {}): GgufBuilder {
  return new GgufBuilder({ name: 'tiny-llama.gguf' })
    .setAll({
      'general.architecture': 'llama',
      'general.name': 'tiny llama',
      'llama.block_count': 2,
      'llama.context_length': 128,
      'llama.embedding_length': 64,
      'llama.feed_forward_length': 160,
      'llama.attention.head_count': 4,
      'llama.attention.head_count_kv': 2,
      'llama.attention.layer_norm_rms_epsilon': typed.f32(1e-5),
      'llama.vocab_size': 96,
      'llama.rope.dimension_count': 16,
      'tokenizer.ggml.model': 'gpt2',
      'tokenizer.ggml.tokens': Array.from({ length: 96 }, (_, id) => `token ${id} Ġé`),
      'tokenizer.ggml.scores': typed.arrayOf(
        typed.f32,
        Array.from({ length: 96 }, (_, id) => -id),
      ),
      ...overrides,
    })
    .tensor('token_embd.weight', { type: 'Q8_0', dims: [64, 96] })
    .tensor('output_norm.weight', { dims: [64] });
}

function zeros({ type = 'F32', dims }: TensorSpec): Uint8Array {
  const sizes = dims.map(Number);
  const isSound = sizes.every((dim) => dim > 0 && dim < 1e6) && sizes[0]! % TENSOR_TYPES[type].blockElements === 0;
  return new Uint8Array(isSound ? tensorBytes(type, sizes) : 0);
}

function writeAll(descriptor: number, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length; ) done += writeSync(descriptor, bytes, done);
}

function padding(length: number, alignment: number): number {
  return (alignment - (length % alignment)) % alignment;
}
