import { fstatSync } from 'node:fs';
import path from 'node:path';
import { FileByteSource } from '../../lib/gguf/byte-source.js';
import { contentIdentity } from '../../lib/gguf/content-identity.js';
import { ModelFiles, type ModelPart } from '../../lib/gguf/model-files.js';
import type { GgufModel } from '../../lib/gguf/reader.js';
import { RocmForgeError } from '../../shared/errors.js';

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
  /** File stamps of the content that was last found to be the model's; one a part. */
  private stamps: readonly string[];
  private readonly loaded = new LoadedContent();
  /** File stamps of content that an executor found to be another, though {@link check} looks at the same of it. */
  private otherStamps: readonly string[] | undefined;

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

  /** Bytes of all its files. */
  get bytes(): number {
    return this.files.parts.reduce((sum, { source }) => sum + source.size, 0);
  }

  /** Time of the last write to any of its files, in ms since 1970. */
  get modifiedMs(): number {
    return Math.max(...this.files.parts.map(({ source }) => fstatSync(source.descriptor).mtimeMs));
  }

  /** One a part, for a child that inherits them. */
  get descriptors(): readonly number[] {
    return this.files.parts.map(({ source }) => source.descriptor);
  }

  /** Paths by which this process, its threads included, opens the very same files again. */
  get openPaths(): readonly string[] {
    return this.files.parts.map(openPathOf);
  }

  /**
   * Cheap while length and time of the last write are what they were; else as {@link check}.
   *
   * @throws RocmForgeError `MODEL_FILE_CHANGED`
   */
  checkStamp(): void {
    if (this.otherStamps !== undefined || !areEqual(this.currentStamps(), this.stamps)) this.check();
  }

  /**
   * Compares the content with what it was when the file was opened: all of the header, which is what a gateway reads, and samples of
   * the tensors, whose every byte executors compare; see {@link confirm}. Some milliseconds a part.
   *
   * @throws RocmForgeError `MODEL_FILE_CHANGED`
   */
  check(): void {
    // Before the content: of a write that comes meanwhile the next check hears.
    const stamps = this.currentStamps();
    if (this.otherStamps !== undefined && areEqual(stamps, this.otherStamps)) throw contentChanged(this.path);
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

  /**
   * Compares all bytes of the tensors that an executor has loaded with those that the first one has.
   *
   * @param checksum its `LoadedModel.content_checksum`
   * @throws RocmForgeError `MODEL_FILE_CHANGED`; {@link check} throws it, too, until the file is written to again
   */
  confirm(checksum: bigint): void {
    if (this.loaded.isSame(checksum)) return;
    this.otherStamps = this.currentStamps();
    throw contentChanged(this.path);
  }

  close(): void {
    this.files.close();
  }

  private currentStamps(): readonly string[] {
    return this.files.parts.map(({ source }) => source.stamp);
  }
}

/** The content that executors which are started in the same way have loaded. */
export class LoadedContent {
  private first: bigint | undefined;

  /** @param checksum `LoadedModel.content_checksum` of one of them. @returns whether it is that of the first one */
  isSame(checksum: bigint): boolean {
    this.first ??= checksum;
    return checksum === this.first;
  }
}

const areEqual = (one: readonly string[], other: readonly string[]): boolean =>
  one.length === other.length && one.every((stamp, part) => stamp === other[part]);

function openPathOf({ source }: ModelPart): string {
  return `/proc/self/fd/${source.descriptor}`;
}

/** The error of a model whose content is another. Clients read it: where the file lies is not theirs to know. */
export function contentChanged(file: string): RocmForgeError {
  return new RocmForgeError(
    'MODEL_FILE_CHANGED',
    `the model file ${path.basename(file)} was written to while it was served: what it holds now is another model; restart the gateway`,
  );
}
