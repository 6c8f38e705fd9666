import type { GgufMetadata } from '../gguf/metadata.js';
import { TokenizerError } from './error.js';

const KEY = 'tokenizer.ggml.precompiled_charsmap';
const HEADER_BYTES = 4;
/** Longer replacements are damage: NFKC has 33 bytes at most. */
const MOST_REPLACEMENT_BYTES = 256;
/** Longer keys are damage, or a cycle: NFKC has 18 bytes at most. */
const MOST_KEY_BYTES = 64;

/** Bits of a unit of the double array (Yata, darts-clone): its label with the sign, whether a value follows, and the next offset. */
const LABEL = 0x8000_00ff | 0;
const HAS_VALUE = 1 << 8;
const VALUE = 0x7fff_ffff;
const offsetOf = (unit: number): number => (unit >>> 10) << ((unit & (1 << 9)) >>> 6);

/** Replacement of the longest key that bytes begin with. */
export interface Replaced {
  /** Bytes of the text that it replaces; 0 if no key fits. */
  length: number;
  /** Its bytes are `replacements[start, end)`. */
  start: number;
  end: number;
}

/**
 * SentencePiece's normalization as files have it (`precompiled_charsmap`): the size of a double-array trie in bytes as u32, the trie
 * over UTF-8 bytes, whose values are offsets into what follows it, the replacements, each ended by a zero byte.
 */
export class PrecompiledCharsmap {
  readonly replacements: Uint8Array;
  private readonly units: Int32Array;
  private readonly found: Replaced = { length: 0, start: 0, end: 0 };

  /** @throws TokenizerError `TOKENIZER_INVALID` for a trie or replacements that are damaged */
  constructor(bytes: Uint8Array) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const size = bytes.length < HEADER_BYTES ? 0 : view.getUint32(0, true);
    if (size === 0 || size % 4 !== 0 || HEADER_BYTES + size >= bytes.length)
      invalid(`has a trie of ${size} bytes in ${bytes.length}`);
    this.units = Int32Array.from({ length: size / 4 }, (_, i) => view.getInt32(HEADER_BYTES + 4 * i, true));
    this.replacements = bytes.slice(HEADER_BYTES + size);
    this.check();
  }

  /** The file's; undefined if it has none. @throws TokenizerError `GGUF_INVALID`, `TOKENIZER_INVALID` */
  static of(metadata: GgufMetadata): PrecompiledCharsmap | undefined {
    const values = metadata.numbers(KEY);
    if (values === undefined || values.length === 0) return undefined;
    return new PrecompiledCharsmap(Uint8Array.from(values, (value) => value & 0xff));
  }

  /** @param bytes UTF-8 @returns the same object in every call */
  longestAt(bytes: Uint8Array, start: number): Replaced {
    const { units, found } = this;
    found.length = 0;
    let value = -1;
    let node = offsetOf(units[0] as number);
    for (let at = start; at < bytes.length; at++) {
      const byte = bytes[at] as number;
      if (byte === 0) break;
      node ^= byte;
      const unit = units[node] as number;
      if ((unit & LABEL) !== byte) break;
      node ^= offsetOf(unit);
      if ((unit & HAS_VALUE) === 0) continue;
      found.length = at - start + 1;
      value = (units[node] as number) & VALUE;
    }
    if (value >= 0) {
      found.start = value;
      found.end = this.replacements.indexOf(0, value);
    }
    return found;
  }

  /** Walks the whole trie, so that no text meets an end of the array, a cycle or bytes that are no text. */
  private check(): void {
    const { units, replacements } = this;
    try {
      new TextDecoder('utf-8', { fatal: true }).decode(replacements);
    } catch {
      invalid('has replacements that are not UTF-8');
    }
    if (replacements.at(-1) !== 0) invalid('has a replacement without an end');
    this.heightFrom(offsetOf(units[0] as number), 0, new Int16Array(units.length));
  }

  /**
   * Length of the longest key from a node on. Ends of keys are shared, so that a node has several ways to it.
   *
   * @param base what the labels of its children are added to @param heights of units that were seen
   */
  private heightFrom(base: number, depth: number, heights: Int16Array): number {
    const { units } = this;
    if (depth > MOST_KEY_BYTES) invalid(`has keys of more than ${MOST_KEY_BYTES} bytes`);
    let height = 0;
    for (let byte = 1; byte <= 0xff; byte++) {
      const node = base ^ byte;
      if (node >= units.length) invalid(`leads to unit ${node} of ${units.length}`);
      const unit = units[node] as number;
      if ((unit & LABEL) !== byte) continue;
      if (heights[node] === 0) {
        const next = node ^ offsetOf(unit);
        if (next >= units.length) invalid(`leads to unit ${next} of ${units.length}`);
        if ((unit & HAS_VALUE) !== 0) this.checkReplacement((units[next] as number) & VALUE);
        heights[node] = 1 + this.heightFrom(next, depth + 1, heights);
      }
      height = Math.max(height, heights[node] as number);
    }
    if (depth + height > MOST_KEY_BYTES) invalid(`has keys of more than ${MOST_KEY_BYTES} bytes`);
    return height;
  }

  private checkReplacement(start: number): void {
    const { replacements } = this;
    if (start >= replacements.length) invalid(`has a replacement at ${start} of ${replacements.length} bytes`);
    const isInside = ((replacements[start] as number) & 0xc0) === 0x80;
    if (isInside) invalid(`has a replacement at ${start}, within a character`);
    const length = replacements.indexOf(0, start) - start;
    if (length > MOST_REPLACEMENT_BYTES) invalid(`has a replacement of ${length} bytes`);
  }
}

function invalid(problem: string): never {
  throw new TokenizerError('TOKENIZER_INVALID', `metadata key "${KEY}" ${problem}`, { key: KEY });
}
