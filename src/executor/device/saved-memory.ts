import { readSync, writeSync } from 'node:fs';

/** The memory could not be written, such as for lack of room. */
export class StoreError extends Error {}

/** Memory of the host, by its descriptor, that a gateway holds while no model is loaded. */
export class SavedMemory {
  constructor(private readonly descriptor: number) {}

  /** @throws Error with the system's own words, or if less was written there */
  read(bytes: Uint8Array, at: number): void {
    for (let done = 0; done < bytes.length; ) {
      const read = readSync(this.descriptor, bytes, done, bytes.length - done, at + done);
      if (read === 0) throw new Error(`${bytes.length} bytes from ${at} are not in the memory for KV blocks`);
      done += read;
    }
  }

  /** @throws StoreError with the system's own words */
  write(bytes: Uint8Array, at: number): void {
    try {
      for (let done = 0; done < bytes.length; ) {
        done += writeSync(this.descriptor, bytes, done, bytes.length - done, at + done);
      }
    } catch (error) {
      throw new StoreError((error as Error).message);
    }
  }
}
