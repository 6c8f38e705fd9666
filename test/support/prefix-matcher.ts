import { type CodePointSet, pairs } from '../../src/lib/grammar/code-points.js';
import type { Expression, GrammarRules } from '../../src/lib/grammar/grammar.js';
import { SPECIAL_TOKEN_BYTE } from '../../src/lib/grammar/grammar-buffer.js';

/** Relation of some bytes to the grammar. */
export interface Prefix {
  /** True if they are a text of the grammar. */
  readonly isWhole: boolean;
  /** True if they begin one: of rules that can all be finished. */
  readonly isViable: boolean;
}

/**
 * Matches bytes against rules in the plainest way: of each part at each place all ends, until no more are found. It shares nothing with
 * the mask engine.
 */
export function matchPrefix(rules: GrammarRules, bytes: Uint8Array): Prefix {
  const ends = new Map<string, Set<number>>();
  let isViable = false;
  let isNew = true;
  /** True if the bytes end within this text that begins at `from`; marks it, where they do. */
  const textEnds = (wanted: Uint8Array, from: number): number[] => {
    const there = bytes.subarray(from, from + wanted.length);
    if (Buffer.compare(there, wanted.subarray(0, there.length)) !== 0) return [];
    if (there.length < wanted.length) isViable = true;
    return there.length < wanted.length ? [] : [from + wanted.length];
  };
  const endsOf = (expression: Expression, from: number): Iterable<number> => {
    switch (expression.kind) {
      case 'text':
        return textEnds(Buffer.from(expression.text), from);
      case 'special': {
        const mark = Buffer.of(SPECIAL_TOKEN_BYTE);
        return textEnds(Buffer.concat([mark, Buffer.from(expression.name), mark]), from);
      }
      case 'characters': {
        const [first, last, length] = characterAt(bytes, from);
        if (!rangesOf(expression.set).some(([low, high]) => low <= last && first <= high)) return [];
        if (from + length > bytes.length) isViable = true;
        return from + length > bytes.length ? [] : [from + length];
      }
      case 'rule': {
        const key = `${expression.name} ${from}`;
        if (!ends.has(key)) isNew = true;
        if (!ends.has(key)) ends.set(key, new Set());
        return [...ends.get(key)!];
      }
      case 'sequence': {
        let at = new Set([from]);
        for (const part of expression.parts) at = new Set([...at].flatMap((place) => [...endsOf(part, place)]));
        return at;
      }
      case 'choice':
        return expression.options.flatMap((option) => [...endsOf(option, from)]);
      case 'repeat': {
        const { what, min, max } = expression;
        const found = new Set(min === 0 ? [from] : []);
        let at = new Set([from]);
        for (let count = 1; count <= Math.min(max, min + bytes.length + 1) && at.size > 0; count++) {
          at = new Set([...at].flatMap((place) => [...endsOf(what, place)]));
          if (count >= min) for (const place of at) found.add(place);
        }
        return found;
      }
    }
  };
  endsOf({ kind: 'rule', name: 'root' }, 0);
  while (isNew) {
    isNew = false;
    for (const [key, known] of [...ends]) {
      const [name, from] = key.split(' ') as [string, string];
      for (const end of endsOf(rules.get(name)!, Number(from))) {
        if (!known.has(end)) isNew = true;
        known.add(end);
      }
    }
  }
  const isWhole = ends.get('root 0')!.has(bytes.length);
  return { isWhole, isViable: isViable || isWhole };
}

const ranges = new WeakMap<CodePointSet, readonly [number, number][]>();

/** The ranges of a set, which is looked at for each byte of each token. */
function rangesOf(set: CodePointSet): readonly [number, number][] {
  const known = ranges.get(set) ?? pairs(set);
  ranges.set(set, known);
  return known;
}

/** No code point is in this range. */
const NONE: [number, number, number] = [0, -1, 1];

/** The least and the largest code point that may stand at a place, and its length in bytes; none where no character does. */
function characterAt(bytes: Uint8Array, from: number): [first: number, last: number, length: number] {
  const lead = bytes[from];
  if (lead === undefined) return [0, 0x10ffff, 1];
  if (lead < 0x80) return [lead, lead, 1];
  const length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  let [first, last] = [lead & (0xff >> (length + 1)), lead & (0xff >> (length + 1))];
  for (let i = 1; i < length; i++) {
    const byte = bytes[from + i];
    if (byte !== undefined && (byte & 0xc0) !== 0x80) return NONE;
    first = (first << 6) | (byte === undefined ? 0 : byte & 0x3f);
    last = (last << 6) | (byte === undefined ? 0x3f : byte & 0x3f);
  }
  // Overlong forms have a shorter one (RFC 3629 section 3).
  first = Math.max(first, [0, 0, 0x80, 0x800, 0x10000][length]!);
  return lead < 0xc0 || lead > 0xf7 || first > last ? NONE : [first, last, length];
}
