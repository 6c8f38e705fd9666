import path from 'node:path';
import type { ModelPart } from '../../lib/gguf/model-files.js';
import type { GgufTensor } from '../../lib/gguf/reader.js';
import { RocmForgeError, typedError } from '../../shared/errors.js';
import { loadAddon, type MappedFile } from '../device/addon.js';

interface MappedPart {
  readonly name: string;
  readonly mapping: MappedFile;
}

/** Addresses of a model's tensors. */
export type ModelContent = Pick<MappedModel, 'address' | 'read' | 'largest' | 'check' | 'close'>;

/** A model's files, mapped read-only until it is closed: where tensors lie in the host's memory. */
export class MappedModel {
  private readonly parts: readonly MappedPart[];

  /**
   * Whoever writes to one of the files from now on is noticed. When it throws, nothing stays mapped.
   *
   * @throws RocmForgeError `MODEL_FILE_UNREADABLE`; `MODEL_FILE_CHANGED` when a file is shorter than it was
   */
  constructor(files: readonly ModelPart[]) {
    const parts: MappedPart[] = [];
    this.parts = parts;
    try {
      for (const { source, file } of files) {
        const mapping = map(source.path, file.name);
        parts.push({ name: file.name, mapping });
        if (mapping.size < file.size) throw fileChanged(file.name);
      }
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** Address of a tensor. */
  address({ part, offset }: GgufTensor): number {
    return this.at(part).mapping.address + offset;
  }

  /**
   * Brings bytes `from` to `from + bytes` of a tensor into memory. It must not be closed before that is done.
   *
   * @returns a checksum of these bytes and of their place in the model
   */
  async read({ part, offset }: GgufTensor, from: number, bytes: number): Promise<bigint> {
    return BigInt(2 * part + 1) * (await this.at(part).mapping.read(offset + from, bytes));
  }

  /** The largest of its files. */
  get largest(): { readonly address: number; readonly bytes: number } {
    const { address, size } = this.parts
      .map(({ mapping }) => mapping)
      .reduce((most, mapping) => (mapping.size > most.size ? mapping : most));
    return { address, bytes: size };
  }

  /**
   * Under a microsecond a file.
   *
   * @throws RocmForgeError `MODEL_FILE_CHANGED` when somebody has written to a file, or changed its length, since it was mapped
   */
  check(): void {
    for (const { name, mapping } of this.parts) if (mapping.isChanged()) throw fileChanged(name);
  }

  /** Gives up the mapping's pages, which come again where they are read. It must not be closed before that is done. */
  async dropPages(): Promise<void> {
    await Promise.all(this.parts.map(({ mapping }) => mapping.dropPages()));
  }

  /** Unmaps it. Nothing may read from it any more. */
  close(): void {
    for (const { mapping } of this.parts) mapping.close();
  }

  private at(part: number): MappedPart {
    const mapped = this.parts[part];
    if (mapped === undefined) throw new RangeError(`part ${part} of ${this.parts.length}`);
    return mapped;
  }
}

/** @throws RocmForgeError `MODEL_FILE_UNREADABLE` */
function map(openPath: string, name: string): MappedFile {
  try {
    return new (loadAddon().MappedFile)(openPath);
  } catch (error) {
    if (typedError(error) !== undefined) throw error;
    throw new RocmForgeError('MODEL_FILE_UNREADABLE', `${name}: ${(error as Error).message}`, {}, { cause: error });
  }
}

/** The weights are not those any more that were loaded. */
function fileChanged(name: string): RocmForgeError {
  return new RocmForgeError(
    'MODEL_FILE_CHANGED',
    `the model file ${path.basename(name)} was written to while its weights were in use`,
  );
}
