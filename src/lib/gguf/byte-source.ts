import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { GgufError } from './error.js';

const READ_AHEAD_BYTES = 1 << 20;

/** Random access to immutable bytes. All offsets and lengths are in bytes. */
export interface ByteSource {
  /** Name of these bytes in messages: a path, or a label in a test. */
  readonly name: string;
  /** Total length, fixed when the source was opened. */
  readonly size: number;
  /**
   * Exactly `length` bytes from `offset`. The view is never overwritten by a later read; do not write to it.
   *
   * @throws RangeError when the range is not inside `[0, size]` (a defect of the caller, who knows `size`)
   */
  read(offset: number, length: number): Uint8Array;
}

/** Bytes that are already in memory. */
export class MemoryByteSource implements ByteSource {
  constructor(
    private readonly data: Uint8Array,
    readonly name = 'memory',
  ) {}

  get size(): number {
    return this.data.length;
  }

  read(offset: number, length: number): Uint8Array {
    assertInside(this, offset, length);
    return this.data.subarray(offset, offset + length);
  }
}

/**
 * A file read through a 1 MiB read-ahead buffer. It is for headers: tensor data is mapped by the executor's native
 * code, which gets the path and offsets only, because an ArrayBuffer over 4 GiB of foreign memory kills Node.
 */
export class FileByteSource implements ByteSource {
  readonly size: number;
  readonly descriptor: number;
  /** {@link stamp} when it was opened. */
  readonly openedStamp: string;
  private buffer: Uint8Array = new Uint8Array(0);
  private bufferOffset = 0;

  /**
   * @param name what messages call the file, where that is not its path
   * @throws GgufError `MODEL_FILE_UNREADABLE` when it is not a file this process may read
   */
  constructor(
    readonly path: string,
    readonly name = path,
  ) {
    try {
      // A pipe without a writer would keep this process waiting.
      this.descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    } catch (error) {
      throw unreadable(name, error);
    }
    const stat = fstatSync(this.descriptor, { bigint: true });
    if (!stat.isFile()) {
      closeSync(this.descriptor);
      const kind = stat.isDirectory() ? 'a directory' : 'not a regular file';
      throw new GgufError('MODEL_FILE_UNREADABLE', `${name} is ${kind}; give the path of a .gguf file`);
    }
    this.size = Number(stat.size);
    this.openedStamp = stampOf(stat);
  }

  /** The file's length and the time of its last write, now: another value after each write, and after `touch`. */
  get stamp(): string {
    return stampOf(fstatSync(this.descriptor, { bigint: true }));
  }

  /** @throws GgufError `MODEL_FILE_UNREADABLE` when the disk fails or the file shrank after it was opened */
  read(offset: number, length: number): Uint8Array {
    assertInside(this, offset, length);
    let start = offset - this.bufferOffset;
    if (start < 0 || start + length > this.buffer.length) {
      // Only who reads front to back reads on; one who jumps gets what was asked for.
      const readsOn = start >= 0 && start <= this.buffer.length;
      const wanted = readsOn ? Math.min(Math.max(length, READ_AHEAD_BYTES), this.size - offset) : length;
      // A new buffer each time, so that views handed out earlier stay as they were.
      this.buffer = this.readFully(offset, wanted);
      this.bufferOffset = offset;
      start = 0;
    }
    return this.buffer.subarray(start, start + length);
  }

  close(): void {
    closeSync(this.descriptor);
  }

  private readFully(offset: number, length: number): Uint8Array {
    const target = new Uint8Array(length);
    let filled = 0;
    while (filled < length) {
      let count: number;
      try {
        count = readSync(this.descriptor, target, filled, length - filled, offset + filled);
      } catch (error) {
        throw unreadable(this.name, error);
      }
      if (count === 0) {
        throw new GgufError(
          'MODEL_FILE_UNREADABLE',
          `${this.name} shrank while it was read: it had ${this.size} bytes and now ends at byte ${offset + filled}`,
        );
      }
      filled += count;
    }
    return target;
  }
}

/** Comparable for one file of one machine alone. */
function stampOf({ size, mtimeNs }: { readonly size: bigint; readonly mtimeNs: bigint }): string {
  return `${size} ${mtimeNs}`;
}

function assertInside(source: ByteSource, offset: number, length: number): void {
  if (offset < 0 || length < 0 || offset + length > source.size) {
    throw new RangeError(`${source.name}: bytes ${offset}..${offset + length} are outside of ${source.size} bytes`);
  }
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist',
  ENOTDIR: 'does not exist',
  EACCES: 'may not be read by this user',
  EPERM: 'may not be read by this user',
  EISDIR: 'is a directory; give the path of a .gguf file',
};

function unreadable(name: string, error: unknown): GgufError {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  const reason = REASONS[code] ?? `could not be read (${error instanceof Error ? error.message : String(error)})`;
  return new GgufError('MODEL_FILE_UNREADABLE', `${name} ${reason}`, {}, { cause: error });
}
