import { writeSync } from 'node:fs';

/** The memory could not be written, such as for lack of room. */
export class StoreError extends Error {}

/** Memory of the host, by its descriptor, that a gateway holds while no model is loaded. */
export class SavedMemory {
  constructor(readonly descriptor: number) {}

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
