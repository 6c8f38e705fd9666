import { cut, quoted } from '../support/quoted.js';
import { GgufError } from './error.js';
import { isHarmlessFileKey, isHarmlessKey, isSavedByLlamaCpp } from './harmless.js';
import type { GgufValue } from './metadata.js';
import type { GgufModel } from './reader.js';

/** Length of a key in a message, and of an architecture's name. */
const MOST_KEY_CHARACTERS = 128;
/** Positions, sizes and grids are 32-bit integers on a device. */
const MOST_COUNT = 2 ** 31 - 1;
/** No activation has a factor that comes near. */
const MOST_LAYER_NUMBER = 1e4;

/** Files of llama.cpp that are not models, by their `general.type`. */
const OTHER_FILES: Readonly<Record<string, string>> = {
  adapter: 'LoRA adapters are not supported; merge it into its model',
  mmproj: 'it encodes images, which are not supported; give the file of the model itself',
  imatrix: 'it has statistics for quantizing a model; give the file of the model itself',
};

/**
 * Checked access to the metadata under a file's architecture: `count('block_count')` reads `llama.block_count` of a
 * llama. Every failure names the file and the full key. What is read is noted, so that {@link refuseUnread} knows the rest.
 */
export class ArchitectureKeys {
  readonly architecture: string;
  private readonly read = new Set<string>();

  /**
   * @throws GgufError `GGUF_INVALID` when the file does not name its architecture, or by a name longer than any; `MODEL_UNSUPPORTED`
   *   for files that are not models
   */
  constructor(private readonly file: GgufModel) {
    const architecture = file.metadata.string('general.architecture');
    if (!architecture) {
      throw new GgufError('GGUF_INVALID', `${file.name}: metadata key "general.architecture" is missing or empty`);
    }
    if (architecture.length > MOST_KEY_CHARACTERS) {
      const problem = `is ${quoted(architecture)}; at most ${MOST_KEY_CHARACTERS} characters are read`;
      throw new GgufError('GGUF_INVALID', `${file.name}: metadata key "general.architecture" ${problem}`);
    }
    this.architecture = architecture;
    const type = file.metadata.string('general.type') ?? '';
    if (Object.hasOwn(OTHER_FILES, type)) {
      const problem = `metadata key "general.type" is ${type}, which is not understood as a model: ${OTHER_FILES[type]}`;
      throw new GgufError('MODEL_UNSUPPORTED', `${file.name}: ${problem}`);
    }
  }

  /** True of a file that llama.cpp's own writer made: see {@link isSavedByLlamaCpp}. */
  get isSavedByLlamaCpp(): boolean {
    return isSavedByLlamaCpp(this.file);
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
    if (value !== undefined && value > MOST_COUNT)
      this.fail(key, `is ${value}; the most that is computed is ${MOST_COUNT}`);
    return value;
  }

  /** An integer from 0 on: how many there are of what a model need not have; 0 where nothing is said. */
  countOrNone(key: string): number {
    return this.optionalNumber(key) === 0 ? 0 : (this.optionalCount(key) ?? 0);
  }

  /**
   * A number > 0 that must be there, from `least` to `most`: bounds that no model comes near, so that what is beyond them is
   * damage and is refused before anything follows from it.
   */
  positive(key: string, least: number, most: number): number {
    return this.optionalPositive(key, least, most) ?? this.fail(key, 'is missing');
  }

  optionalPositive(key: string, least: number, most: number): number | undefined {
    const value = this.optionalNumber(key);
    if (value !== undefined && !(value > 0 && value < Number.POSITIVE_INFINITY)) {
      this.fail(key, `is ${value} instead of a positive number`);
    }
    if (value !== undefined && (value < least || value > most)) {
      this.fail(key, `is ${value}, which is absurd: models have ${least} to ${most}`);
    }
    return value;
  }

  /** As {@link optionalPositive}, but 0 is what files write for a number that is not set. */
  positiveOrUnset(key: string, least: number, most: number): number | undefined {
    return this.optionalNumber(key) === 0 ? undefined : this.optionalPositive(key, least, most);
  }

  /**
   * Accepts a number that says what is computed anyway; missing or 0 it says nothing.
   *
   * @throws GgufError `MODEL_UNSUPPORTED` for any other number
   */
  expectEqual(key: string, computed: number): void {
    const value = this.optionalNumber(key);
    if (value === undefined || value === 0 || Math.abs(value - computed) <= 1e-6 * Math.abs(computed)) return;
    this.unsupported(key, `is ${value}; only ${computed}, which is computed, is supported`);
  }

  optionalNumber(key: string): number | undefined {
    const fullKey = this.fullKey(key);
    if (!ArrayBuffer.isView(this.file.metadata.get(fullKey))) return this.file.metadata.number(fullKey);
    const perLayer = Array.from(this.file.metadata.numbers(fullKey) ?? []);
    const first = perLayer[0] ?? this.fail(key, 'is an empty list');
    if (perLayer.some((value) => value !== first)) {
      this.unsupported(key, `differs between layers (${perLayer.slice(0, MOST_SHOWN)})`);
    }
    return first;
  }

  /** A count of each layer, from 0 on: a list with as many entries, or one number for all. */
  layerCounts(key: string, layers: number): readonly number[] {
    const value = this.file.metadata.get(this.fullKey(key));
    if (!ArrayBuffer.isView(value)) return Array<number>(layers).fill(this.count(key));
    const counts = this.numbers(key) ?? [];
    // A list may go on over blocks that only predict.
    const predicting = this.optionalNumber('nextn_predict_layers') ?? 0;
    if (counts.length < layers || counts.length > layers + predicting)
      this.fail(key, `has ${counts.length} entries for ${layers} layers`);
    const wrong = counts.find((count) => !Number.isSafeInteger(count) || count < 0 || count > MOST_COUNT);
    if (wrong !== undefined) this.fail(key, `has the count ${wrong}`);
    return counts.slice(0, layers);
  }

  optionalBoolean(key: string): boolean | undefined {
    return this.file.metadata.boolean(this.fullKey(key));
  }

  /** One number for all layers, or a boolean for each, which some files write as 0 or 1. */
  numberOrBooleans(key: string): number | readonly boolean[] | undefined {
    const value = this.file.metadata.get(`${this.architecture}.${key}`);
    if (ArrayBuffer.isView(value)) {
      const numbers = this.numbers(key) ?? [];
      if (numbers.length > 1 && numbers.every((flag) => flag === 0 || flag === 1))
        return numbers.map((flag) => flag === 1);
    }
    if (!Array.isArray(value)) return this.optionalNumber(key);
    this.fullKey(key);
    const flags = (value as readonly unknown[]).filter((flag): flag is boolean => typeof flag === 'boolean');
    return flags.length === value.length ? flags : this.fail(key, 'is a list of something other than booleans');
  }

  /** A list of numbers. */
  numbers(key: string): readonly number[] | undefined {
    const values = this.file.metadata.numbers(this.fullKey(key));
    return values && Array.from(values);
  }

  /**
   * A number of each layer under a key that has no architecture before it: a list, or one for all. There are none beyond
   * ±{@link MOST_LAYER_NUMBER}.
   */
  fileLayerNumbers(fullKey: string, layers: number): readonly number[] {
    const value = this.file.metadata.get(fullKey);
    const single = ArrayBuffer.isView(value) ? undefined : this.file.metadata.number(fullKey);
    const numbers =
      single === undefined ? Array.from(this.file.metadata.numbers(fullKey) ?? []) : Array<number>(layers).fill(single);
    const count = numbers.length === 0 ? 'is missing' : `has ${numbers.length} entries for ${layers} layers`;
    const problem = numbers.length === layers ? undefined : count;
    const wrong = numbers.find((number) => !(Math.abs(number) <= MOST_LAYER_NUMBER));
    if (problem !== undefined || wrong !== undefined)
      throw this.error('GGUF_INVALID', fullKey, problem ?? `has the number ${wrong}`);
    return numbers;
  }

  optionalString(key: string): string | undefined {
    return this.file.metadata.string(this.fullKey(key));
  }

  /**
   * Refuses a key that was not read so far and is not known to be harmless, under this architecture's name or another.
   *
   * @throws GgufError `MODEL_UNSUPPORTED` naming it
   */
  refuseUnread(): void {
    const prefix = `${this.architecture}.`;
    for (const [fullKey, value] of this.file.metadata) {
      const isOwn = fullKey.startsWith(prefix);
      const isKnown = isOwn
        ? this.read.has(fullKey) || isHarmlessKey(fullKey.slice(prefix.length), value, this.file)
        : isHarmlessFileKey(fullKey, value);
      if (isKnown) continue;
      const problem = `is ${shown(value)}, which is not understood here: without it the model may compute something else`;
      throw this.error('MODEL_UNSUPPORTED', fullKey, problem);
    }
  }

  /** The key as it stands in the file; it counts as read. */
  private fullKey(key: string): string {
    const fullKey = `${this.architecture}.${key}`;
    this.read.add(fullKey);
    return fullKey;
  }

  /** @throws GgufError `GGUF_INVALID`: the file contradicts itself or the format */
  fail(key: string, problem: string): never {
    throw this.error('GGUF_INVALID', `${this.architecture}.${key}`, problem);
  }

  /** @throws GgufError `MODEL_UNSUPPORTED`: the file is fine, this project cannot run it */
  unsupported(key: string, problem: string): never {
    throw this.error('MODEL_UNSUPPORTED', `${this.architecture}.${key}`, problem);
  }

  private error(reason: 'GGUF_INVALID' | 'MODEL_UNSUPPORTED', fullKey: string, problem: string): GgufError {
    return new GgufError(reason, `${this.file.name}: metadata key ${quoted(fullKey, MOST_KEY_CHARACTERS)} ${problem}`, {
      key: cut(fullKey, MOST_KEY_CHARACTERS),
    });
  }
}

const MOST_SHOWN = 16;

/** A value in a few words. */
export function shown(value: GgufValue): string {
  if (typeof value === 'string') return quoted(value);
  if (typeof value !== 'object') return String(value);
  const count = value.length;
  const first = Array.from({ length: Math.min(count, MOST_SHOWN) }, (_, i) => cut(String(value[i])));
  return `[${first.join(', ')}${count > MOST_SHOWN ? ', ...' : ''}]`;
}
