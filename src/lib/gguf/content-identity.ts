import { createHash, type Hash } from 'node:crypto';
import type { ByteSource } from './byte-source.js';
import type { GgufFile } from './reader.js';

/** Blocks of tensor data that are looked at, and the size of each. */
const SAMPLES = 64;
const SAMPLE_BYTES = 4096;
const HEADER_CHUNK_BYTES = 1 << 20;

/** One of a model's files: its bytes, and where its header ends. */
export interface FileContent {
  readonly source: ByteSource;
  readonly file: Pick<GgufFile, 'dataOffset'>;
}

/**
 * Identity of a model's content, wherever it lies: SHA-256 (hex) of, for each of its files, the
 * size, the whole header, and 64 blocks of 4 KiB spread evenly over the tensors, at places that follow from the two sizes
 * alone. Two fine-tunes of one model share header and size; their weights differ nearly everywhere. Some milliseconds a
 * file, whatever its size.
 *
 * @param files one, or the parts of a split model in their order
 * @throws GgufError `MODEL_FILE_UNREADABLE` from a source, also when the file has become shorter than it was
 */
export function contentIdentity(files: readonly FileContent[]): string {
  const hash = createHash('sha256');
  for (const file of files) addFile(hash, file);
  return hash.digest('hex');
}

function addFile(hash: Hash, { source, file: { dataOffset } }: FileContent): void {
  const headerBytes = Math.min(dataOffset, source.size);
  hash.update(`${source.size} ${headerBytes}\n`);
  for (let at = 0; at < headerBytes; at += HEADER_CHUNK_BYTES) {
    hash.update(source.read(at, Math.min(HEADER_CHUNK_BYTES, headerBytes - at)));
  }
  const span = Math.max(0, source.size - headerBytes - SAMPLE_BYTES);
  for (let i = 0; i < SAMPLES; i++) {
    const at = headerBytes + Math.floor((span * i) / (SAMPLES - 1));
    hash.update(source.read(at, Math.min(SAMPLE_BYTES, source.size - at)));
  }
}
