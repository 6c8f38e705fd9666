import { quoted } from '../support/quoted.js';
import type { HeaderCursor } from './header-cursor.js';
import { TENSOR_TYPES, type TensorTypeName, tensorBytes, tensorElements, tensorTypeById } from './tensor-types.js';

const MAX_DIMS = 4;
const MAX_NAME_BYTES = 65_535;
const MOST_QUOTED_CHARACTERS = 256;
/** name length 8, one byte of name, dimension count 4, one dimension 8, type 4, offset 8 */
export const MIN_TENSOR_INFO_BYTES = 33;

export interface GgufTensor {
  readonly name: string;
  readonly type: TensorTypeName;
  /** GGUF order, innermost first: a weight of `out` rows and `in` columns is `[in, out]`. */
  readonly dims: readonly number[];
  /** Which of the model's files it lies in, from 0. */
  readonly part: number;
  /** Absolute byte offset in that file. */
  readonly offset: number;
  /** Size in the file, without padding. */
  readonly bytes: number;
}

interface TensorInfo extends Omit<GgufTensor, 'part' | 'offset'> {
  /** Offset from the start of the data section. */
  readonly relativeOffset: number;
  /** Offset of the info itself in the header. */
  readonly infoOffset: number;
}

/** The descriptions of `count` tensors; what depends on where the data section begins is checked by {@link placeTensors}. */
export function readTensorInfos(cursor: HeaderCursor, count: number): TensorInfo[] {
  const infos = new Map<string, TensorInfo>();
  for (let index = 0; index < count; index++) {
    cursor.subject = `the name of tensor ${index} of ${count}`;
    const infoOffset = cursor.position;
    const name = cursor.string();
    if (name === '') cursor.fail('is empty', infoOffset);
    if (name.length > MAX_NAME_BYTES) cursor.fail(`has ${name.length} characters`, infoOffset);
    cursor.subject = `tensor ${quoted(name, MOST_QUOTED_CHARACTERS)}`;
    if (infos.has(name)) cursor.fail('occurs twice', infoOffset);
    infos.set(name, { name, infoOffset, ...readShape(cursor) });
  }
  return [...infos.values()];
}

function readShape(cursor: HeaderCursor): Pick<TensorInfo, 'type' | 'dims' | 'bytes' | 'relativeOffset'> {
  const dimsOffset = cursor.position;
  const dimCount = cursor.u32();
  if (dimCount === 0 || dimCount > MAX_DIMS) {
    cursor.fail(`has ${dimCount} dimensions instead of 1 to ${MAX_DIMS}`, dimsOffset);
  }
  const dims: number[] = [];
  for (let index = 0; index < dimCount; index++) {
    const offset = cursor.position;
    const dim = cursor.u64();
    if (dim === 0) cursor.fail(`has the size 0 in dimension ${index}`, offset);
    if (typeof dim === 'bigint') cursor.fail(`has the impossible size ${dim} in dimension ${index}`, offset);
    dims.push(dim);
  }
  const typeOffset = cursor.position;
  const typeId = cursor.u32();
  const type = tensorTypeById(typeId) ?? cursor.fail(`has the unknown tensor type ${typeId}`, typeOffset);
  const { blockElements, blockBytes } = TENSOR_TYPES[type];
  // One multiplication at a time rounds upwards monotonically, so an unsafe product is never mistaken for a safe one.
  if (!Number.isSafeInteger(tensorElements(dims) * blockBytes)) {
    cursor.fail(`is impossibly large: ${dims.join(' × ')}`, dimsOffset);
  }
  if (dims[0]! % blockElements !== 0) {
    cursor.fail(`has rows of ${dims[0]} elements, but ${type} stores blocks of ${blockElements}`, dimsOffset);
  }
  const offsetOffset = cursor.position;
  const relativeOffset = cursor.u64();
  if (typeof relativeOffset === 'bigint') cursor.fail(`has the impossible offset ${relativeOffset}`, offsetOffset);
  return { type, dims, bytes: tensorBytes(type, dims), relativeOffset };
}

/**
 * Tensors at their absolute offsets, in the order of the file's header.
 *
 * @param dataOffset start of the data section, bytes
 * @param size       of the whole file, bytes
 */
export function placeTensors(
  cursor: HeaderCursor,
  infos: readonly TensorInfo[],
  { alignment, dataOffset, size }: { alignment: number; dataOffset: number; size: number },
): ReadonlyMap<string, GgufTensor> {
  const tensors = new Map<string, GgufTensor>();
  for (const { name, type, dims, bytes, relativeOffset, infoOffset } of infos) {
    cursor.subject = `tensor ${quoted(name, MOST_QUOTED_CHARACTERS)}`;
    if (relativeOffset % alignment !== 0) {
      cursor.fail(`has the offset ${relativeOffset}, which is not a multiple of ${alignment}`, infoOffset);
    }
    const offset = dataOffset + relativeOffset;
    if (offset + bytes > size) {
      cursor.fail(`occupies bytes ${offset} to ${offset + bytes}, but the file has only ${size}`, infoOffset);
    }
    tensors.set(name, { name, type, dims, part: 0, offset, bytes });
  }
  const ordered = [...tensors.values()].sort((a, b) => a.offset - b.offset);
  for (const [index, tensor] of ordered.entries()) {
    const next = ordered[index + 1];
    if (next !== undefined && tensor.offset + tensor.bytes > next.offset) {
      cursor.subject = `tensor ${quoted(next.name, MOST_QUOTED_CHARACTERS)}`;
      cursor.fail(`overlaps tensor ${quoted(tensor.name, MOST_QUOTED_CHARACTERS)}`, next.offset);
    }
  }
  return tensors;
}
