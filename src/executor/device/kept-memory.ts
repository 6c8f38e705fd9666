import { randomBytes } from 'node:crypto';
import { readSync, writeSync } from 'node:fs';
import { type Addon, loadAddon } from './addon.js';

/** Alignment of ranges in the host's memory: a multiple of every page size in use. */
const ALIGNMENT = 1 << 16;
/** First bytes of the memory: which ranges follow, as JSON. */
const HEADER_BYTES = ALIGNMENT;

/** Description of the ranges, which the first executor writes. */
interface Header {
  /** Identity of what the ranges hold, as decimal digits. */
  readonly identity: string;
  /** Bytes of each range, in the order in which they were allocated. */
  readonly ranges: readonly number[];
}

/** A range of kept memory, mapped into this process. */
export interface KeptRange {
  readonly address: number;
  readonly bytes: number;
}

/**
 * Memory that outlives this process: what one executor has written the next one finds, however the first one ended. Each allocates
 * the same ranges in the same order; one that does not gets memory of its own in their place, and the memory another identity.
 *
 * An executor that only stands by maps the ranges and writes nothing.
 */
export interface KeptMemory {
  /** Makes room for the ranges that follow, up to the next call. @param sizes bytes of each, in the order of their allocation */
  reserve(name: string, sizes: readonly number[]): Promise<void>;
  /** The next range; undefined where the memory has another one there, or no room: it is to be allocated elsewhere. */
  allocate(bytes: number): KeptRange | undefined;
  release(range: KeptRange): void;
  /**
   * Identity of what the ranges hold, once all are allocated. The same number as another process had: they hold what that one has
   * written. Drawn anew where no other process can have had them.
   */
  identity(): bigint;
  /** True if another process has written to the ranges, as far as is known when all are allocated. */
  readonly isFound: boolean;
  /** A note of an executor before this one. */
  noted(key: string): string | undefined;
  /** A range was damaged and is written anew: results that were computed with it belong to another identity. */
  repaired(): Promise<void>;
  /** Leaves a note for those that follow. */
  note(key: string, value: string): Promise<void>;
}

/** Memory of the host that a gateway holds and its executors map, one after the other. */
export class HostKeptMemory implements KeptMemory {
  private readonly header: Header | undefined;
  private readonly ranges: number[] = [];
  private end = HEADER_BYTES;
  private isOther = false;
  private known: bigint | undefined;

  /**
   * @param descriptor of memory that {@link Addon.createSharedMemory} made
   * @throws Error with the system's own words
   */
  constructor(
    private readonly descriptor: number,
    private readonly addon: Pick<Addon, 'mapSharedMemory' | 'unmapSharedMemory' | 'sealSharedMemory'> = loadAddon(),
  ) {
    this.header = readHeader(descriptor);
  }

  /** It grows by itself. */
  async reserve(): Promise<void> {}

  allocate(bytes: number): KeptRange | undefined {
    const index = this.ranges.push(bytes) - 1;
    const offset = this.end;
    this.end += Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
    this.isOther ||= this.header !== undefined && this.header.ranges[index] !== bytes;
    if (this.isOther) return undefined;
    try {
      return { address: this.addon.mapSharedMemory(this.descriptor, offset, bytes), bytes };
    } catch {
      // No memory is left, or no address space: its own allocation will say so.
      this.isOther = true;
      return undefined;
    }
  }

  release({ address, bytes }: KeptRange): void {
    this.addon.unmapSharedMemory(address, bytes);
  }

  /** On the host everything else is in the model's file. */
  noted(): undefined {}
  async note(): Promise<void> {}
  async repaired(): Promise<void> {}

  identity(): bigint {
    this.known ??= this.settle();
    return this.known;
  }

  get isFound(): boolean {
    const { header, ranges, isOther } = this;
    return header !== undefined && !isOther && header.ranges.length === ranges.length;
  }

  private settle(): bigint {
    const { header, ranges, isOther } = this;
    if (header !== undefined && this.isFound) return BigInt(header.identity);
    const identity = randomIdentity();
    if (header === undefined && !isOther) {
      const text = JSON.stringify({ identity: String(identity), ranges } satisfies Header);
      // Memory whose ranges cannot be listed is not to be found by another.
      if (text.length < HEADER_BYTES) {
        this.addon.mapSharedMemory(this.descriptor, 0, HEADER_BYTES);
        writeSync(this.descriptor, `${text}\n`, 0);
        this.addon.sealSharedMemory(this.descriptor);
      }
    }
    return identity;
  }
}

function readHeader(descriptor: number): Header | undefined {
  const bytes = Buffer.alloc(HEADER_BYTES);
  const read = readSync(descriptor, bytes, 0, HEADER_BYTES, 0);
  const line = bytes.toString('latin1', 0, read).split('\n')[0] ?? '';
  return line === '' || line.startsWith('\0') ? undefined : headerOf(line);
}

/** The description that an executor wrote; if a fault has damaged it since, there are no ranges to be found. */
function headerOf(line: string): Header {
  try {
    const { identity, ranges } = JSON.parse(line) as Header;
    if (/^\d{1,20}$/.test(identity) && Array.isArray(ranges)) return { identity, ranges };
  } catch {
    // Below.
  }
  return { identity: '0', ranges: [] };
}

/** Identity of new memory: a random number other than 0. */
export const randomIdentity = (): bigint => randomBytes(8).readBigUInt64LE() | 1n;
