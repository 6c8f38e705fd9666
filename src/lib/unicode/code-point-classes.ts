import { UNICODE_RUNS } from './unicode-table.js';

/**
 * Properties of a character that pre-tokenizers need, as bits of one byte. `\s` is Unicode's White_Space (with U+0085, without
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

const CODE_POINTS = 0x110000;

/** The classes by their letters in the table, from A on. */
const BITS: readonly number[] = [
  0,
  CodePointClass.upper,
  CodePointClass.lower,
  CodePointClass.caseless,
  CodePointClass.mark,
  CodePointClass.number,
  CodePointClass.space,
  CodePointClass.punctuation,
  CodePointClass.symbol,
];

/**
 * The classes of every code point, 1.1 MB, of one pinned version of Unicode: the engine's own tables change with Node, and
 * with them the ids of a text.
 */
export const CODE_POINT_CLASSES: Uint8Array = expand(UNICODE_RUNS);

function expand(runs: string): Uint8Array {
  const classes = new Uint8Array(CODE_POINTS);
  let at = 0;
  for (const [, length, letter] of runs.matchAll(/([0-9a-z]*)([A-I])/g)) {
    const end = at + (length === '' ? 1 : Number.parseInt(length!, 36));
    classes.fill(BITS[letter!.charCodeAt(0) - 0x41]!, at, end);
    at = end;
  }
  if (at !== CODE_POINTS) throw new Error(`the Unicode table covers ${at} code points`);
  return classes;
}
