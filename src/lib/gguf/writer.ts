import { ftruncateSync, writeSync } from 'node:fs';
import { withOutputFile } from '../support/output-file.js';
import { TENSOR_TYPES, type TensorTypeName, tensorBytes } from './tensor-types.js';

/** A metadata value with its type in the file. */
export type GgufValue =
  | { readonly type: 'u32' | 'i32' | 'f32'; readonly value: number }
  | { readonly type: 'bool'; readonly value: boolean }
  | { readonly type: 'string'; readonly value: string }
  | { readonly type: 'strings'; readonly value: readonly string[] }
  | { readonly type: 'u8s' | 'i32s' | 'f32s'; readonly value: readonly number[] };

/** A tensor to be written; its bytes are asked for when its turn comes. */
export interface TensorSource {
  readonly name: string;
  readonly type: TensorTypeName;
  /** GGUF order, innermost first. */
  readonly dims: readonly number[];
  /** Its bytes in pieces, as many in all as type and dims say. */
  readonly data: () => Iterable<Uint8Array>;
}

const ALIGNMENT = 32;
/** `enum gguf_type` of gguf.h. */
const TYPE_IDS = { u8: 0, u32: 4, i32: 5, f32: 6, bool: 7, string: 8, array: 9 } as const;

/**
 * Writes a GGUF v3 file in one pass: no tensor is ever held whole, so that a file larger than memory can be made.
 *
 * A file that cannot be finished is removed.
 *
 * @param hasData false: tensors are zeros, which take no room on a disk
 * @returns bytes of the file
 * @throws RangeError when a tensor's pieces are more or fewer bytes than its type and dims say; the file system's error
 */
export function writeGguf(
  path: string,
  metadata: Readonly<Record<string, GgufValue>>,
  tensors: readonly TensorSource[],
  hasData = true,
): number {
  return withOutputFile(path, (file) => writeTo(file, metadata, tensors, hasData));
}

function writeTo(
  file: number,
  metadata: Readonly<Record<string, GgufValue>>,
  tensors: readonly TensorSource[],
  hasData: boolean,
): number {
  let position = 0;
  const write = (bytes: Uint8Array): void => {
    for (let done = 0; done < bytes.length; ) done += writeSync(file, bytes, done);
    position += bytes.length;
  };
  const align = (): void => write(Buffer.alloc(padding(position)));
  write(header(metadata, tensors));
  align();
  if (!hasData) {
    for (const { type, dims } of tensors) {
      position += tensorBytes(type, dims);
      position += padding(position);
    }
    ftruncateSync(file, position);
    return position;
  }
  for (const tensor of tensors) {
    const expected = position + tensorBytes(tensor.type, tensor.dims);
    for (const piece of tensor.data()) write(piece);
    if (position !== expected) {
      throw new RangeError(`${tensor.name}: ${position - expected} bytes more than ${tensor.type} [${tensor.dims}]`);
    }
    align();
  }
  return position;
}

function header(metadata: Readonly<Record<string, GgufValue>>, tensors: readonly TensorSource[]): Buffer {
  const entries = Object.entries(metadata);
  const parts: Buffer[] = [Buffer.from('GGUF', 'latin1'), u32(3), u64(tensors.length), u64(entries.length)];
  for (const [key, value] of entries) parts.push(text(key), encoded(value));
  let offset = 0;
  for (const { name, type, dims } of tensors) {
    parts.push(text(name), u32(dims.length), ...dims.map(u64), u32(TENSOR_TYPES[type].id), u64(offset));
    const bytes = tensorBytes(type, dims);
    offset += bytes + padding(bytes);
  }
  return Buffer.concat(parts);
}

/** The type id and the payload. */
function encoded(value: GgufValue): Buffer {
  const scalar = (id: number, payload: Buffer): Buffer => Buffer.concat([u32(id), payload]);
  const array = (id: number, length: number, payload: Buffer): Buffer =>
    Buffer.concat([u32(TYPE_IDS.array), u32(id), u64(length), payload]);
  switch (value.type) {
    case 'u32':
      return scalar(TYPE_IDS.u32, u32(value.value));
    case 'i32':
      return scalar(TYPE_IDS.i32, numbers(Int32Array.of(value.value)));
    case 'f32':
      return scalar(TYPE_IDS.f32, numbers(Float32Array.of(value.value)));
    case 'bool':
      return scalar(TYPE_IDS.bool, Buffer.of(value.value ? 1 : 0));
    case 'string':
      return scalar(TYPE_IDS.string, text(value.value));
    case 'strings':
      return array(TYPE_IDS.string, value.value.length, Buffer.concat(value.value.map(text)));
    case 'u8s':
      return array(TYPE_IDS.u8, value.value.length, Buffer.from(value.value));
    case 'i32s':
      return array(TYPE_IDS.i32, value.value.length, numbers(Int32Array.from(value.value)));
    case 'f32s':
      return array(TYPE_IDS.f32, value.value.length, numbers(Float32Array.from(value.value)));
  }
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function u64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value, 'utf8');
  return Buffer.concat([u64(bytes.length), bytes]);
}

function numbers(values: Int32Array | Float32Array): Buffer {
  return Buffer.from(values.buffer, values.byteOffset, values.byteLength);
}

function padding(bytes: number): number {
  return (ALIGNMENT - (bytes % ALIGNMENT)) % ALIGNMENT;
}
