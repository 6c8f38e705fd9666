import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { GgufError } from './error.js';
import type { GgufFile } from './reader.js';

/** Names of a model's parts by llama.cpp's llama-gguf-split, counted from 1. */
const PART_NAME = /^(?<name>.+)-(?<number>\d{5})-of-(?<count>\d{5})\.gguf$/;

/** Which part of a split model a file is. */
export interface SplitPlace {
  /** From 0. */
  readonly index: number;
  /** Parts of the model. */
  readonly count: number;
  /** Tensors in all parts. */
  readonly tensors: number;
}

/**
 * Which part a file says it is; `undefined` for a model in one file.
 *
 * @throws GgufError `GGUF_INVALID` when its `split.*` keys are missing, wrong or contradict each other
 */
export function splitOf(file: GgufFile): SplitPlace | undefined {
  const count = wholeNumber(file, 'split.count');
  if (count === undefined || count <= 1) return undefined;
  const required = (key: string): number =>
    wholeNumber(file, key) ?? fail(file, key, `is missing beside ${count} parts`);
  const [index, tensors] = [required('split.no'), required('split.tensors.count')];
  if (index >= count) fail(file, 'split.no', `is ${index}, beyond the ${count} parts that "split.count" says`);
  return { index, count, tensors };
}

/**
 * The paths of all parts of a model, in their order; of a model in one file that file's alone.
 *
 * @throws GgufError as {@link splitOf}; `INVALID_OPTION` when the file is not the first part, and names that one;
 *   `GGUF_INVALID` when the parts cannot be found, because the file is not named as the first of so many
 */
export function partPaths(first: GgufFile): readonly string[] {
  const split = splitOf(first);
  if (split === undefined) return [first.name];
  const { index, count } = split;
  const base = PART_NAME.exec(path.basename(first.name))?.groups?.name;
  const part = (i: number, name = base ?? 'NAME') => `${name}-${fiveDigits(i + 1)}-of-${fiveDigits(count)}.gguf`;
  if (index > 0) {
    const folder = base === undefined ? '' : path.dirname(first.name);
    throw new GgufError(
      'INVALID_OPTION',
      `${first.name} is part ${index + 1} of ${count} of a split model; name its first part, ${path.join(folder, part(0))}`,
    );
  }
  if (base === undefined || path.basename(first.name) !== part(0)) {
    throw new GgufError(
      'GGUF_INVALID',
      `${first.name} is the first of ${count} parts of a split model but is not named ${part(0)}: ` +
        'the others cannot be found',
    );
  }
  return Array.from({ length: count }, (_, i) => path.join(path.dirname(first.name), part(i)));
}

/**
 * Checks that a file is what its place among a split model's parts says. Which model it is of is not written in it: parts of
 * two models of one shape can only be told by their tensors.
 *
 * @param index of the part, from 1: the first has all metadata
 * @throws GgufError `GGUF_INVALID` naming both files
 */
export function checkPart(file: GgufFile, index: number, first: GgufFile): void {
  const split = splitOf(file);
  const expected = splitOf(first) as SplitPlace;
  const beside = `${path.basename(first.name)} says`;
  if (split === undefined)
    fail(file, 'split.count', `does not say ${expected.count} as ${beside}: it is not a part of it`);
  if (split.count !== expected.count)
    fail(file, 'split.count', `is ${split.count}, not ${expected.count} as ${beside}`);
  if (split.index !== index) fail(file, 'split.no', `is ${split.index} instead of ${index}: this is another part`);
  if (split.tensors !== expected.tensors) {
    fail(
      file,
      'split.tensors.count',
      `is ${split.tensors}, not ${expected.tensors} as ${beside}: it belongs to another model`,
    );
  }
  const metadata = new Map(first.metadata);
  for (const [key, value] of file.metadata) {
    const isItsOwn = key.startsWith('split.') || key === 'general.alignment';
    if (!isItsOwn && !isDeepStrictEqual(metadata.get(key), value)) {
      fail(file, key, `is not what ${beside}, where the metadata of all parts is`);
    }
  }
}

/** The model's name as its file's says it: without the ending, and without the number of a part. */
export function nameOf(file: string): string {
  const name = path.basename(file);
  return PART_NAME.exec(name)?.groups?.name ?? path.basename(name, '.gguf');
}

function wholeNumber(file: GgufFile, key: string): number | undefined {
  const value = file.metadata.number(key);
  if (value !== undefined && (!Number.isSafeInteger(value) || value < 0))
    fail(file, key, `is ${value}, no whole number`);
  return value;
}

const fiveDigits = (number: number): string => String(number).padStart(5, '0');

function fail(file: GgufFile, key: string, problem: string): never {
  throw new GgufError('GGUF_INVALID', `${file.name}: metadata key ${JSON.stringify(key)} ${problem}`, { key });
}
