import type { ArchitectureKeys } from './architecture-keys.js';

const KEY = 'rope.dimension_sections';

/** Assignment of pairs to sections: adjacent pairs, or every third pair. */
export type SectionOrder = 'contiguous' | 'interleaved';

/**
 * Which of a position's numbers turns each pair of a head: time, height and width, and a fourth one that text does not have. Of
 * text the first three are the same, and nothing follows from it. Pairs of the fourth section would not be turned.
 *
 * @returns false where the file has none, or only zeros
 * @throws GgufError `MODEL_UNSUPPORTED` where pairs are left out
 */
export function readRopeSections(keys: ArchitectureKeys, ropeDimensions: number, order: SectionOrder): boolean {
  const sections = keys.numbers(KEY);
  if (sections === undefined || sections.every((section) => section === 0)) return false;
  checkRopeSections(keys, ropeDimensions, order);
  return true;
}

/**
 * As {@link readRopeSections}, for architectures whose files have them.
 *
 * @throws GgufError `GGUF_INVALID` where they are missing
 */
export function checkRopeSections(keys: ArchitectureKeys, ropeDimensions: number, order: SectionOrder): void {
  const sections = keys.numbers(KEY) ?? keys.fail(KEY, 'is missing');
  const size = sections.reduce((sum, section) => sum + section, 0);
  const [time = 0, height = 0, width = 0] = sections;
  const isCovered = (pair: number): boolean =>
    order === 'interleaved'
      ? pair % size < 3 * (sections[(pair % size) % 3] ?? 0)
      : pair % size < time + height + width;
  const pairs = Array.from({ length: ropeDimensions / 2 }, (_, pair) => pair);
  if (sections.every((section) => section >= 0) && size > 0 && pairs.every(isCovered)) return;
  keys.unsupported(KEY, `is ${sections}, which leaves out some of the ${pairs.length} pairs that are rotated`);
}
