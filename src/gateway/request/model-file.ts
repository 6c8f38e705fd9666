import { RocmForgeError } from '../../shared/errors.js';
import { FileByteSource } from '../../shared/gguf/byte-source.js';
import { contentIdentity } from '../../shared/gguf/content-identity.js';
import { ModelFiles, type ModelPart } from '../../shared/gguf/model-files.js';
import type { GgufModel } from '../../shared/gguf/reader.js';

/**
 * The model of a gateway, its file or each part of it open for as long as the gateway lives: what is deleted or renamed over
 * stays the file that was opened. A copy into the same file does not, so they are looked at again before each long use.
 */
export class ModelFile {
  readonly header: GgufModel;
  /** See {@link contentIdentity}. */
  readonly identity: string;
  private readonly files: ModelFiles;

  /**
   * @param path of the model, or of the first part of a split one
   * @throws RocmForgeError `MODEL_FILE_UNREADABLE`, `GGUF_INVALID`, `INVALID_OPTION`: see {@link ModelFiles}
   */
  constructor(readonly path: string) {
    this.files = new ModelFiles(path);
    try {
      this.header = this.files.model;
      this.identity = this.files.identity();
      this.checkStamp();
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** One a part, for a child that inherits them. */
  get descriptors(): readonly number[] {
    return this.files.parts.map(({ source }) => source.descriptor);
  }

  /** Where this process, its threads included, opens the very same files again. */
  get openPaths(): readonly string[] {
    return this.files.parts.map(openPathOf);
  }

  /**
   * Cheap: whether somebody wrote to a file or changed its length.
   *
   * @throws RocmForgeError `MODEL_FILE_CHANGED`
   */
  checkStamp(): void {
    const changed = this.files.parts.find(({ source }) => source.isChanged);
    if (changed !== undefined) throw writtenTo(changed.file.name);
  }

  /**
   * Some milliseconds a part: the same, and whether what is in them is what it was.
   *
   * @throws RocmForgeError `MODEL_FILE_CHANGED`
   */
  check(): void {
    this.checkStamp();
    // Other readers: the buffers of the first ones hold what was there.
    const again: ModelPart[] = [];
    try {
      for (const part of this.files.parts) {
        again.push({ source: new FileByteSource(openPathOf(part), part.file.name), file: part.file });
      }
      if (contentIdentity(again) !== this.identity) throw writtenTo(this.path);
    } finally {
      for (const { source } of again) source.close();
    }
  }

  close(): void {
    this.files.close();
  }
}

function openPathOf({ source }: ModelPart): string {
  return `/proc/self/fd/${source.descriptor}`;
}

function writtenTo(file: string): RocmForgeError {
  return new RocmForgeError(
    'MODEL_FILE_CHANGED',
    `${file} was written to while it was served: what it holds now is another model; start the gateway anew`,
  );
}
