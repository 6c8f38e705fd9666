import type { ByteSource } from '../../src/lib/gguf/byte-source.js';

/** A source that counts what is read of it: the work of a reader, without a clock. */
export class CountingSource implements ByteSource {
  reads = 0;
  bytes = 0;

  constructor(private readonly source: ByteSource) {}

  get name(): string {
    return this.source.name;
  }

  get size(): number {
    return this.source.size;
  }

  read(offset: number, length: number): Uint8Array {
    this.reads += 1;
    this.bytes += length;
    return this.source.read(offset, length);
  }
}
