import { RocmForgeError } from '../errors.js';
import type { GgufFile } from './reader.js';

/**
 * Checked access to the metadata under a file's architecture: `count('block_count')` reads `llama.block_count` of a
 * llama. Every failure names the file and the full key.
 */
export class ArchitectureKeys {
  readonly architecture: string;

  /** @throws RocmForgeError `GGUF_INVALID` when the file does not name its architecture */
  constructor(private readonly file: GgufFile) {
    const architecture = file.metadata.string('general.architecture');
    if (!architecture) {
      throw new RocmForgeError('GGUF_INVALID', `${file.name}: metadata key "general.architecture" is missing or empty`);
    }
    this.architecture = architecture;
  }

  /** An integer > 0 that must be there. A list with one entry a layer counts as its single value when all are equal. */
  count(key: string): number {
    return this.optionalCount(key) ?? this.fail(key, 'is missing');
  }

  optionalCount(key: string): number | undefined {
    const value = this.optionalNumber(key);
    if (value !== undefined && (!Number.isSafeInteger(value) || value <= 0)) {
      this.fail(key, `is ${value} instead of a positive integer`);
    }
    return value;
  }

  /** A finite number > 0 that must be there. */
  positive(key: string): number {
    return this.optionalPositive(key) ?? this.fail(key, 'is missing');
  }

  optionalPositive(key: string): number | undefined {
    const value = this.optionalNumber(key);
    if (value !== undefined && !(value > 0 && value < Number.POSITIVE_INFINITY)) {
      this.fail(key, `is ${value} instead of a positive number`);
    }
    return value;
  }

  optionalNumber(key: string): number | undefined {
    const fullKey = `${this.architecture}.${key}`;
    if (!ArrayBuffer.isView(this.file.metadata.get(fullKey))) return this.file.metadata.number(fullKey);
    const perLayer = Array.from(this.file.metadata.numbers(fullKey) ?? []);
    const first = perLayer[0] ?? this.fail(key, 'is an empty list');
    if (perLayer.some((value) => value !== first)) this.unsupported(key, `differs between layers (${perLayer})`);
    return first;
  }

  optionalString(key: string): string | undefined {
    return this.file.metadata.string(`${this.architecture}.${key}`);
  }

  /** @throws RocmForgeError `GGUF_INVALID`: the file contradicts itself or the format */
  fail(key: string, problem: string): never {
    throw this.error('GGUF_INVALID', key, problem);
  }

  /** @throws RocmForgeError `MODEL_UNSUPPORTED`: the file is fine, this project cannot run it */
  unsupported(key: string, problem: string): never {
    throw this.error('MODEL_UNSUPPORTED', key, problem);
  }

  private error(reason: 'GGUF_INVALID' | 'MODEL_UNSUPPORTED', key: string, problem: string): RocmForgeError {
    const fullKey = `${this.architecture}.${key}`;
    return new RocmForgeError(reason, `${this.file.name}: metadata key "${fullKey}" ${problem}`, { key: fullKey });
  }
}
