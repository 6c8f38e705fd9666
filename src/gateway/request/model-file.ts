import { fstatSync } from 'node:fs';
import { RocmForgeError } from '../../shared/errors.js';
import { FileByteSource } from '../../shared/gguf/byte-source.js';
import { contentIdentity } from '../../shared/gguf/content-identity.js';
import { type GgufFile, readGguf } from '../../shared/gguf/reader.js';

/**
 * The model file of a gateway, open for as long as the gateway lives: what is deleted or renamed over stays the file that
 * was opened. A copy into the same file does not, so it is looked at again before each long use.
 */
export class ModelFile {
  readonly header: GgufFile;
  /** See {@link contentIdentity}. */
  readonly identity: string;
  private readonly opened: FileByteSource;
  private readonly stamp: string;

  /** @throws RocmForgeError `MODEL_FILE_UNREADABLE`, `GGUF_INVALID` */
  constructor(readonly path: string) {
    this.opened = new FileByteSource(path);
    try {
      this.stamp = stampOf(this.descriptor);
      this.header = readGguf(this.opened);
      this.identity = contentIdentity(this.opened, this.header.dataOffset);
      this.checkStamp();
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** For a child that inherits it. */
  get descriptor(): number {
    return this.opened.descriptor;
  }

  /** Where this process, its threads included, opens the very same file again. */
  get openPath(): string {
    return `/proc/self/fd/${this.descriptor}`;
  }

  /**
   * Cheap: whether somebody wrote to the file or changed its length.
   *
   * @throws RocmForgeError `MODEL_FILE_CHANGED`
   */
  checkStamp(): void {
    if (stampOf(this.descriptor) !== this.stamp) throw this.changed();
  }

  /**
   * Some milliseconds: the same, and whether what is in it is what it was.
   *
   * @throws RocmForgeError `MODEL_FILE_CHANGED`
   */
  check(): void {
    this.checkStamp();
    // Another reader: the first one's buffer holds what was there.
    const source = new FileByteSource(this.openPath, this.path);
    try {
      if (contentIdentity(source, this.header.dataOffset) !== this.identity) throw this.changed();
    } finally {
      source.close();
    }
  }

  close(): void {
    this.opened.close();
  }

  private changed(): RocmForgeError {
    return new RocmForgeError(
      'MODEL_FILE_CHANGED',
      `${this.path} was written to while it was served: what it holds now is another model; start the gateway anew`,
    );
  }
}

/** Length and time of the last write: comparable for one file of one machine alone. */
function stampOf(descriptor: number): string {
  const { size, mtimeNs } = fstatSync(descriptor, { bigint: true });
  return `${size} ${mtimeNs}`;
}
