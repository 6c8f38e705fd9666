import { quoted } from '../support/quoted.js';
import type { ByteSource } from './byte-source.js';
import { FOREIGN_HEAD_BYTES, recogniseForeignFormat } from './foreign-formats.js';
import { HeaderCursor } from './header-cursor.js';
import { GgufMetadata, type GgufValue } from './metadata.js';
import { MetadataValueReader } from './metadata-values.js';
import { type GgufTensor, MIN_TENSOR_INFO_BYTES, placeTensors, readTensorInfos } from './tensor-infos.js';

export type { GgufTensor } from './tensor-infos.js';

const MAGIC = 0x4655_4747; // "GGUF", little-endian
const DEFAULT_ALIGNMENT_BYTES = 32;
/** The format's own minimum; it also keeps every element aligned. */
const MIN_ALIGNMENT_BYTES = 8;
const MAX_ALIGNMENT_BYTES = 1 << 20;
const MAX_KEY_BYTES = 65_535;
const MOST_QUOTED_CHARACTERS = 256;
/** key length 8, one byte of key, value type 4, one byte of value */
const MIN_KEY_VALUE_BYTES = 14;

/** Header of a model, be it in one file or in the parts of a split one. */
export interface GgufModel {
  /** The path of its first file, or the name of the source it was read from. */
  readonly name: string;
  readonly metadata: GgufMetadata;
  /** By name, in the order of the headers. Data is not read: it stays where `GgufTensor.offset` points. */
  readonly tensors: ReadonlyMap<string, GgufTensor>;
  /** Size of all its files, bytes. */
  readonly size: number;
  /** SHA-256 hex over the headers (magic to last tensor info) and file sizes. Models of one shape may share it. */
  readonly fingerprint: string;
}

/** One GGUF file: a model, or a part of one. */
export interface GgufFile extends GgufModel {
  /** 2 or 3; they differ only in that 3 may be big-endian, which is refused. */
  readonly version: number;
  /** Bytes; each tensor begins at a multiple of it after `dataOffset`. */
  readonly alignment: number;
  /** Absolute start of the data section, bytes; beyond `size` in a file without tensors and without final padding. */
  readonly dataOffset: number;
}

/**
 * Reads the header of a GGUF v2 or v3 file; format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
 * Time and memory are bounded by the header's real size, whatever its counts claim.
 *
 * @param skipsTokens leave the strings of `tokenizer.` arrays empty: their numbers are read alone
 * @throws GgufError `GGUF_INVALID`, one sentence with file, key or tensor, and byte offset
 * @throws GgufError `MODEL_FILE_UNREADABLE` from the source
 */
export function readGguf(source: ByteSource, skipsTokens = false): GgufFile {
  const cursor = new HeaderCursor(source);
  const version = readVersion(source, cursor);
  cursor.subject = 'the header';
  const tensorCount = cursor.count('tensors', MIN_TENSOR_INFO_BYTES);
  const metadata = new GgufMetadata(readMetadata(cursor, skipsTokens), source.name);
  const infos = readTensorInfos(cursor, tensorCount);
  const alignment = metadata.number('general.alignment') ?? DEFAULT_ALIGNMENT_BYTES;
  const dataOffset = Math.ceil(cursor.position / alignment) * alignment;
  const tensors = placeTensors(cursor, infos, { alignment, dataOffset, size: source.size });
  const fingerprint = cursor.fingerprint();
  return { name: source.name, version, metadata, tensors, alignment, dataOffset, size: source.size, fingerprint };
}

function readVersion(source: ByteSource, cursor: HeaderCursor): number {
  cursor.subject = 'the magic number';
  if (cursor.u32() !== MAGIC) {
    const head = source.read(0, Math.min(FOREIGN_HEAD_BYTES, source.size));
    const advice = recogniseForeignFormat(head) ?? 'this is not a GGUF file';
    cursor.fail(`is not "GGUF": ${advice}`, 0);
  }
  cursor.subject = 'the format version';
  const version = cursor.u32();
  if (version === 2 || version === 3) return version;
  if (version !== 0 && (version & 0xffff) === 0) {
    cursor.fail('is byte-swapped: this is a big-endian GGUF file; convert it with gguf_convert_endian.py', 4);
  }
  return cursor.fail(`is ${version}; versions 2 and 3 are supported`, 4);
}

function readMetadata(cursor: HeaderCursor, skipsTokens: boolean): ReadonlyMap<string, GgufValue> {
  const count = cursor.count('metadata keys', MIN_KEY_VALUE_BYTES);
  const values = new MetadataValueReader(cursor, skipsTokens);
  const entries = new Map<string, GgufValue>();
  for (let index = 0; index < count; index++) {
    cursor.subject = `metadata key ${index} of ${count}`;
    const offset = cursor.position;
    const key = cursor.string();
    if (key === '') cursor.fail('is empty', offset);
    if (key.length > MAX_KEY_BYTES) cursor.fail(`has ${key.length} characters`, offset);
    cursor.subject = `metadata key ${quoted(key, MOST_QUOTED_CHARACTERS)}`;
    if (entries.has(key)) cursor.fail('occurs twice', offset);
    const value = values.read(key);
    if (key === 'general.alignment') checkAlignment(cursor, value, offset);
    entries.set(key, value);
  }
  return entries;
}

/** Checked where it stands, so that the offset is known. */
function checkAlignment(cursor: HeaderCursor, value: GgufValue, offset: number): void {
  const isPowerOfTwo = typeof value === 'number' && Number.isInteger(Math.log2(value));
  if (isPowerOfTwo && value >= MIN_ALIGNMENT_BYTES && value <= MAX_ALIGNMENT_BYTES) return;
  const range = `${MIN_ALIGNMENT_BYTES} to ${MAX_ALIGNMENT_BYTES}`;
  cursor.fail(`is ${String(value)} instead of a power of two from ${range}`, offset);
}
