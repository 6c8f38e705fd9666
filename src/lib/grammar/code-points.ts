/**
 * Sets of Unicode scalar values, as sorted pairs of a first and a last one: [97, 122] is a to z. Surrogates are in no set:
 * no text has one.
 */
export type CodePointSet = readonly number[];

const LAST = 0x10ffff;
const SURROGATES: CodePointSet = [0xd800, 0xdfff];

/** The set of these pairs, in any order and overlapping as they please. */
export function codePoints(...ranges: readonly (readonly [number, number])[]): CodePointSet {
  return ofRanges(ranges);
}

/** The same of a list, which may be longer than a call has arguments. */
export function ofRanges(ranges: readonly (readonly [number, number])[]): CodePointSet {
  return merged([...ranges].sort((a, b) => a[0] - b[0]).flat());
}

/** Each half of the sets on its own, so that a range is merged once for each doubling of their number. */
export function unionOf(sets: readonly CodePointSet[]): CodePointSet {
  if (sets.length <= 1) return sets[0] ?? [];
  const middle = sets.length >> 1;
  return unionOfTwo(unionOf(sets.slice(0, middle)), unionOf(sets.slice(middle)));
}

function unionOfTwo(a: CodePointSet, b: CodePointSet): CodePointSet {
  if (a.length === 0) return b;
  if (b.length === 0) return a;
  const ranges: number[] = [];
  for (let i = 0, j = 0; i < a.length || j < b.length; ) {
    if (j >= b.length || (i < a.length && a[i]! <= b[j]!)) ranges.push(a[i++]!, a[i++]!);
    else ranges.push(b[j++]!, b[j++]!);
  }
  return merged(ranges);
}

/** Ranges by their first value, with those in one that overlap or touch. */
function merged(ranges: CodePointSet): CodePointSet {
  const apart: number[] = [];
  for (let index = 0; index < ranges.length; index += 2) {
    const first = ranges[index]!;
    const last = ranges[index + 1]!;
    const end = apart.length - 1;
    if (end > 0 && first <= apart[end]! + 1) apart[end] = Math.max(apart[end]!, last);
    else apart.push(first, last);
  }
  return apart;
}

/** Every scalar value that is not in the set. */
export function complement(set: CodePointSet): CodePointSet {
  const outside: number[] = [];
  const inside = unionOfTwo(set, SURROGATES);
  let next = 0;
  for (let index = 0; index < inside.length; index += 2) {
    if (inside[index]! > next) outside.push(next, inside[index]! - 1);
    next = inside[index + 1]! + 1;
  }
  if (next <= LAST) outside.push(next, LAST);
  return outside;
}

/** Scalar values in both. */
export function intersection(a: CodePointSet, b: CodePointSet): CodePointSet {
  const both: number[] = [];
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    const first = Math.max(a[i]!, b[j]!);
    const last = Math.min(a[i + 1]!, b[j + 1]!);
    if (first <= last) both.push(first, last);
    if (a[i + 1]! < b[j + 1]!) i += 2;
    else j += 2;
  }
  return both;
}

export function has(set: CodePointSet, codePoint: number): boolean {
  let low = 0;
  let high = set.length / 2;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (set[2 * middle + 1]! < codePoint) low = middle + 1;
    else high = middle;
  }
  return low < set.length / 2 && set[2 * low]! <= codePoint;
}

export function pairs(set: CodePointSet): [number, number][] {
  return Array.from({ length: set.length / 2 }, (_, index) => [set[2 * index]!, set[2 * index + 1]!]);
}

export function only(character: string): CodePointSet {
  const codePoint = character.codePointAt(0)!;
  return [codePoint, codePoint];
}

export const EVERYTHING: CodePointSet = complement([]);
export const ASCII = codePoints([0, 0x7f]);
export const NOT_ASCII = complement(ASCII);
export const DIGITS = codePoints([0x30, 0x39]);
export const WORD = codePoints([0x30, 0x39], [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a]);
/** ECMAScript's WhiteSpace and LineTerminator. */
export const SPACE = codePoints(
  [0x09, 0x0d],
  [0x20, 0x20],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
);
/** Characters that `.` excludes. */
export const LINE_TERMINATORS = codePoints([0x0a, 0x0a], [0x0d, 0x0d], [0x2028, 0x2029]);
