import path from 'node:path';
import { RocmForgeError } from '../../shared/errors.js';
import { FileByteSource } from '../../shared/gguf/byte-source.js';
import { contentIdentity } from '../../shared/gguf/content-identity.js';
import { ModelFiles, type ModelPart } from '../../shared/gguf/model-files.js';
import type { GgufModel } from '../../shared/gguf/reader.js';

/**
 * The model of a gateway, its file or each part of it open for as long as the gateway lives: what is deleted or renamed over
 * stays the file that was opened. A copy into the same file does not, so they are looked at again before each long use.
 * Length and time of the last write alone prove nothing: `touch` and `cp --preserve` leave the same bytes.
 */
export class ModelFile {
  readonly header: GgufModel;
  /** See {@link contentIdentity}. */
  readonly identity: string;
  private readonly files: ModelFiles;
  /** Of the content that was last found to be the model's; one a part. */
  private stamps: readonly string[];

  /**
   * @param path of the model, or of the first part of a split one
   * @throws RocmForgeError `MODEL_FILE_UNREADABLE`, `GGUF_INVALID`, `INVALID_OPTION`: see {@link ModelFiles}
   */
  constructor(readonly path: string) {
    this.files = new ModelFiles(path);
    this.stamps = this.files.parts.map(({ source }) => source.openedStamp);
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
   * Cheap while length and time of the last write are what they were; else as {@link check}.
   *
   * @throws RocmForgeError `MODEL_FILE_CHANGED`
   */
  checkStamp(): void {
    const now = this.currentStamps();
    if (now.some((stamp, part) => stamp !== this.stamps[part])) this.check();
  }

  /**
   * Compares the content with what it was when the file was opened, which takes some milliseconds a part.
   *
   * @throws RocmForgeError `MODEL_FILE_CHANGED`
   */
  check(): void {
    // Before the content: of a write that comes meanwhile the next check hears.
    const stamps = this.currentStamps();
    // Other readers: the buffers of the first ones hold what was there.
    const again: ModelPart[] = [];
    try {
      for (const part of this.files.parts) {
        again.push({ source: new FileByteSource(openPathOf(part), part.file.name), file: part.file });
      }
      if (contentIdentity(again) !== this.identity) throw contentChanged(this.path);
      this.stamps = stamps;
    } finally {
      for (const { source } of again) source.close();
    }
  }

  close(): void {
    this.files.close();
  }

  private currentStamps(): readonly string[] {
    return this.files.parts.map(({ source }) => source.stamp);
  }
}

function openPathOf({ source }: ModelPart): string {
  return `/proc/self/fd/${source.descriptor}`;
}

/** Clients read it: where the file lies is not theirs to know. */
function contentChanged(file: string): RocmForgeError {
  return new RocmForgeError(
    'MODEL_FILE_CHANGED',
    `the model file ${path.basename(file)} was written to while it was served: what it holds now is another model; start the gateway anew`,
  );
}
