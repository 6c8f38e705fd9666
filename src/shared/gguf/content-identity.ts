import { createHash } from 'node:crypto';
import type { ByteSource } from './byte-source.js';

/** Blocks of tensor data that are looked at, and the size of each. */
const SAMPLES = 64;
const SAMPLE_BYTES = 4096;
const HEADER_CHUNK_BYTES = 1 << 20;

/**
 * What tells the content of one model file from that of another, wherever each lies: SHA-256 (hex) of the size, the whole
 * header, and 64 blocks of 4 KiB spread evenly over the tensors, at places that follow from the two sizes alone. Two
 * fine-tunes of one model share header and size; their weights differ nearly everywhere. Some milliseconds, whatever the
 * size of the file.
 *
 * @param dataOffset where the header ends, bytes
 * @throws RocmForgeError `MODEL_FILE_UNREADABLE` from the source, also when the file has become shorter than it was
 */
export function contentIdentity(source: ByteSource, dataOffset: number): string {
  const headerBytes = Math.min(dataOffset, source.size);
  const hash = createHash('sha256').update(`${source.size} ${headerBytes}\n`);
  for (let at = 0; at < headerBytes; at += HEADER_CHUNK_BYTES) {
    hash.update(source.read(at, Math.min(HEADER_CHUNK_BYTES, headerBytes - at)));
  }
  const span = Math.max(0, source.size - headerBytes - SAMPLE_BYTES);
  for (let i = 0; i < SAMPLES; i++) {
    const at = headerBytes + Math.floor((span * i) / (SAMPLES - 1));
    hash.update(source.read(at, Math.min(SAMPLE_BYTES, source.size - at)));
  }
  return hash.digest('hex');
}
