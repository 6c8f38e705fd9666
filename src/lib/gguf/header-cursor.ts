import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import type { ByteSource } from './byte-source.js';
import { GgufError } from './error.js';
import { decodeText } from './text.js';

/** Real headers are below 40 MB (a 262k vocabulary with merges); beyond this a count or a length is damaged. */
const MAX_HEADER_BYTES = 128 << 20;
const WINDOW_BYTES = 256 << 10;

/**
 * Reads a GGUF header front to back, checking every length against what is left before anything is allocated,
 * and hashing what it passes. Every failure is `GGUF_INVALID` and names file, subject and byte offset.
 */
export class HeaderCursor {
  /** Subject of the current read, for messages: `metadata key "general.name"`. */
  subject = 'the header';
  private window: Buffer = Buffer.alloc(0);
  private windowOffset = 0;
  private at = 0;
  private readonly end: number;
  private readonly hash = createHash('sha256');

  constructor(private readonly source: ByteSource) {
    this.end = Math.min(source.size, MAX_HEADER_BYTES);
  }

  /** Absolute byte offset of the next read. */
  get position(): number {
    return this.windowOffset + this.at;
  }

  /** @throws GgufError always; `offset` is where the offending bytes begin */
  fail(problem: string, offset = this.position): never {
    throw new GgufError('GGUF_INVALID', `${this.source.name}: ${this.subject} ${problem} (at byte ${offset})`);
  }

  u8(): number {
    const at = this.take(1);
    return this.window.readUInt8(at);
  }

  i8(): number {
    const at = this.take(1);
    return this.window.readInt8(at);
  }

  u16(): number {
    const at = this.take(2);
    return this.window.readUInt16LE(at);
  }

  i16(): number {
    const at = this.take(2);
    return this.window.readInt16LE(at);
  }

  u32(): number {
    const at = this.take(4);
    return this.window.readUInt32LE(at);
  }

  i32(): number {
    const at = this.take(4);
    return this.window.readInt32LE(at);
  }

  f32(): number {
    const at = this.take(4);
    return this.window.readFloatLE(at);
  }

  f64(): number {
    const at = this.take(8);
    return this.window.readDoubleLE(at);
  }

  /** A `number` wherever a double is exact, else a `bigint`. */
  u64(): number | bigint {
    const at = this.take(8);
    const high = this.window.readUInt32LE(at + 4);
    return high < 0x20_0000 ? high * 0x1_0000_0000 + this.window.readUInt32LE(at) : this.window.readBigUInt64LE(at);
  }

  i64(): number | bigint {
    const at = this.take(8);
    const value = this.window.readBigInt64LE(at);
    const narrow = Number(value);
    return Number.isSafeInteger(narrow) ? narrow : value;
  }

  /**
   * A u64 that says how many elements follow.
   *
   * @param minElementBytes the least that one element can occupy; more elements than fit are refused here
   */
  count(what: string, minElementBytes: number, most = Number.MAX_SAFE_INTEGER): number {
    const offset = this.position;
    const count = this.u64();
    const room = this.end - this.position;
    if (typeof count === 'bigint' || count * minElementBytes > room) {
      this.fail(`claims ${count} ${what}, but only ${room} bytes of header can follow`, offset);
    }
    if (count > most) this.fail(`claims ${count} ${what}; the most that is accepted is ${most}`, offset);
    return count;
  }

  /** A view of the next `length` bytes; it stays valid. */
  bytes(length: number): Uint8Array {
    const at = this.take(length);
    return this.window.subarray(at, at + length);
  }

  /**
   * A length-prefixed string.
   *
   * @param escapeInvalid keep bytes that are not UTF-8 as {@link decodeText} does, instead of refusing them
   */
  string(escapeInvalid = false): string {
    const offset = this.position;
    const length = this.stringLength();
    const at = this.take(length);
    const text = this.window.toString('utf8', at, at + length);
    // Decoding puts U+FFFD where bytes are wrong, so text without one needs no second look: this is the fast path.
    if (!text.includes('\ufffd')) return text;
    const bytes = this.window.subarray(at, at + length);
    if (isUtf8(bytes)) return text;
    return escapeInvalid ? decodeText(bytes) : this.fail('is not valid UTF-8', offset);
  }

  /** Moves past a length-prefixed string. */
  skipString(): void {
    this.take(this.stringLength());
  }

  private stringLength(): number {
    const offset = this.position;
    const length = this.u64();
    const room = this.end - this.position;
    if (typeof length === 'bigint' || length > room) {
      this.fail(`has a string of ${length} bytes, but only ${room} bytes of header can follow`, offset);
    }
    return length;
  }

  /** SHA-256 (hex) of everything read so far followed by the file's size as a little-endian u64. Call it once, last. */
  fingerprint(): string {
    const size = Buffer.alloc(8);
    size.writeBigUInt64LE(BigInt(this.source.size));
    return this.hash.update(this.window.subarray(0, this.at)).update(size).digest('hex');
  }

  /** Moves past `length` bytes and gives their index in the window, which this may replace: call it before `window`. */
  private take(length: number): number {
    if (this.at + length > this.window.length) this.refill(length);
    const at = this.at;
    this.at += length;
    return at;
  }

  private refill(length: number): void {
    const position = this.position;
    if (position + length > this.end) {
      if (this.end < this.source.size) this.fail(`lies beyond ${MAX_HEADER_BYTES >> 20} MiB of header`);
      this.fail(`is cut off: ${length} bytes are needed and the file ends at byte ${this.source.size}`);
    }
    this.hash.update(this.window.subarray(0, this.at));
    const view = this.source.read(position, Math.min(Math.max(length, WINDOW_BYTES), this.end - position));
    this.window = Buffer.from(view.buffer, view.byteOffset, view.length);
    this.windowOffset = position;
    this.at = 0;
  }
}
