/**
 * What pre-tokenizers ask about a character, as bits of one byte. `\s` is Unicode's White_Space (with U+0085, without
 * U+FEFF), as in the regular expressions that the models were trained with, not JavaScript's.
 */
export const CodePointClass = {
  /** Lu and Lt. */
  upper: 1,
  /** Ll. */
  lower: 2,
  /** Lm and Lo, which count as either case. */
  caseless: 4,
  mark: 8,
  number: 16,
  space: 32,
  punctuation: 64,
  symbol: 128,
} as const;

export const LETTER = CodePointClass.upper | CodePointClass.lower | CodePointClass.caseless;

const PATTERNS: readonly (readonly [bit: number, pattern: RegExp])[] = [
  [CodePointClass.upper, /[\p{Lu}\p{Lt}]+/gu],
  [CodePointClass.lower, /\p{Ll}+/gu],
  [CodePointClass.caseless, /[\p{Lm}\p{Lo}]+/gu],
  [CodePointClass.mark, /\p{M}+/gu],
  [CodePointClass.number, /\p{N}+/gu],
  [CodePointClass.space, /\p{White_Space}+/gu],
  [CodePointClass.punctuation, /\p{P}+/gu],
  [CodePointClass.symbol, /\p{S}+/gu],
];

const PLANE = 0x10000;

/** Planes that have characters with a class; all others are unassigned, private or surrogates. */
const PLANES: readonly number[] = [0, 1, 2, 3, 14];

/** The classes of every code point, 1.1 MB, built once from the engine's own Unicode tables (about 20 ms). */
export const CODE_POINT_CLASSES: Uint8Array = buildClasses();

function buildClasses(): Uint8Array {
  const classes = new Uint8Array(17 * PLANE);
  for (const plane of PLANES) {
    const first = plane * PLANE;
    const unitsPerCharacter = plane === 0 ? 1 : 2;
    const text = characters(first);
    for (const [bit, pattern] of PATTERNS) {
      for (const run of text.matchAll(pattern)) {
        const start = first + run.index / unitsPerCharacter;
        const end = start + run[0].length / unitsPerCharacter;
        for (let codePoint = start; codePoint < end; codePoint++) classes[codePoint]! |= bit;
      }
    }
  }
  return classes;
}

/** All characters of a plane in order; surrogates, which are none, are replaced to keep the offsets. */
function characters(first: number): string {
  const parts: string[] = [];
  for (let block = first; block < first + PLANE; block += 0x1000) {
    const codePoints = Array.from({ length: 0x1000 }, (_, i) => block + i);
    parts.push(String.fromCodePoint(...codePoints.map((c) => (c >= 0xd800 && c <= 0xdfff ? 0xe000 : c))));
  }
  return parts.join('');
}
