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
  const merged: number[] = [];
  for (const [first, last] of [...ranges].sort((a, b) => a[0] - b[0])) {
    const end = merged.length - 1;
    if (end > 0 && first <= merged[end]! + 1) merged[end] = Math.max(merged[end]!, last);
    else merged.push(first, last);
  }
  return merged;
}

export function union(...sets: readonly CodePointSet[]): CodePointSet {
  return unionOf(sets);
}

export function unionOf(sets: readonly CodePointSet[]): CodePointSet {
  return ofRanges(sets.flatMap(pairs));
}

/** Every scalar value that is not in the set. */
export function complement(set: CodePointSet): CodePointSet {
  const outside: [number, number][] = [];
  let next = 0;
  for (const [first, last] of pairs(union(set, SURROGATES))) {
    if (first > next) outside.push([next, first - 1]);
    next = last + 1;
  }
  if (next <= LAST) outside.push([next, LAST]);
  return ofRanges(outside);
}

export function intersection(a: CodePointSet, b: CodePointSet): CodePointSet {
  return complement(union(complement(a), complement(b)));
}

export function has(set: CodePointSet, codePoint: number): boolean {
  return pairs(set).some(([first, last]) => first <= codePoint && codePoint <= last);
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
