import { CODE_POINT_CLASSES, CodePointClass, LETTER } from '../unicode/code-point-classes.js';

/**
 * One regular expression of a pre-tokenizer as a hand-written scanner: the end of its match at exactly `start` inside
 * `text[first, end)`, or `start` when there is none. What lies outside `[first, end)` does not exist for it; what lies in
 * front of `start` was looked at already. Offsets are UTF-16 units. Every scanner is linear: it reads a character a bounded
 * number of times and never backtracks.
 *
 * The expression a scanner stands for is quoted above it, in the notation of the models' own `tokenizer.json`.
 */
export type Rule = (text: string, start: number, end: number, first: number) => number;

const { upper, lower, caseless, mark, number: NUMBER, space: SPACE, punctuation, symbol } = CodePointClass;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const BLANK = 0x20;

/** Classes of the character at `at`; 0 at the end, which is not a character. */
function classAt(text: string, at: number, end: number): number {
  if (at >= end) return 0;
  const unit = text.charCodeAt(at);
  return CODE_POINT_CLASSES[(unit & 0xf800) === 0xd800 ? text.codePointAt(at)! : unit]!;
}

/** UTF-16 units of the character at `at`. */
export function widthAt(text: string, at: number): number {
  return (text.charCodeAt(at) & 0xfc00) === 0xd800 ? 2 : 1;
}

/** End of the longest run of characters with any of the classes in `bits`. */
function runOf(bits: number, text: string, start: number, end: number): number {
  let at = start;
  while ((classAt(text, at, end) & bits) !== 0) at += widthAt(text, at);
  return at;
}

function isNewline(unit: number): boolean {
  return unit === LINE_FEED || unit === CARRIAGE_RETURN;
}

/** Neither white space nor any of the classes in `bits`; false at the end. */
function isOther(bits: number, text: string, at: number, end: number): boolean {
  return at < end && (classAt(text, at, end) & (bits | SPACE)) === 0;
}

function runOfOther(bits: number, text: string, start: number, end: number): number {
  let at = start;
  while (isOther(bits, text, at, end)) at += widthAt(text, at);
  return at;
}

/** U+017F, which is an `s` to expressions that ignore case. */
const LONG_S = 0x17f;

/** `'s|'t|'re|'ve|'m|'ll|'d`, in either case or in lower case only. */
function endOfContraction(text: string, start: number, end: number, anyCase: boolean): number {
  if (text.charCodeAt(start) !== 0x27 || start + 1 >= end) return start;
  const fold = (at: number) => (at < end ? text.charCodeAt(at) | (anyCase ? 0x20 : 0) : 0);
  const first = fold(start + 1);
  if (anyCase && text.charCodeAt(start + 1) === LONG_S) return start + 2;
  if (first === 0x73 || first === 0x74 || first === 0x6d || first === 0x64) return start + 2;
  const second = fold(start + 2);
  const isPair =
    (first === 0x72 && second === 0x65) || (first === 0x76 && second === 0x65) || (first === 0x6c && second === 0x6c);
  return isPair ? start + 3 : start;
}

/** `\s+(?!\S)|\s+`: white space up to the last, which belongs to the word that follows. */
function endOfSpace(text: string, start: number, end: number): number {
  const run = runOf(SPACE, text, start, end);
  return run < end && run - start > 1 ? run - 1 : run;
}

/** `\s*[\r\n]+|\s+(?!\S)|\s+` */
function endOfSpaceOrLines(text: string, start: number, end: number): number {
  const run = runOf(SPACE, text, start, end);
  for (let at = run; at > start; at--) if (isNewline(text.charCodeAt(at - 1))) return at;
  return run < end && run - start > 1 ? run - 1 : run;
}

/** `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+` */
export const gpt2Words: Rule = (text, start, end) => {
  const contraction = endOfContraction(text, start, end, false);
  if (contraction > start) return contraction;
  const word = text.charCodeAt(start) === BLANK ? start + 1 : start;
  const classes = classAt(text, word, end);
  if ((classes & LETTER) !== 0) return runOf(LETTER, text, word, end);
  if ((classes & NUMBER) !== 0) return runOf(NUMBER, text, word, end);
  if (isOther(LETTER | NUMBER, text, word, end)) return runOfOther(LETTER | NUMBER, text, word, end);
  return endOfSpace(text, start, end);
};

export interface WordRuleOptions {
  /** The most digits of one piece. */
  readonly digits: number;
  /** True if combining marks count as letters: `[\p{L}\p{M}]` for `\p{L}`. */
  readonly marksAreLetters?: boolean;
  /** True if line ends after punctuation belong to its piece; default true. */
  readonly linesAfterPunctuation?: boolean;
}

/**
 * `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
 * the rule of Llama 3 and Qwen 2.
 */
export function words(options: WordRuleOptions): Rule {
  const letter = LETTER | (options.marksAreLetters ? mark : 0);
  const isTail = (options.linesAfterPunctuation ?? true) ? isNewline : () => false;
  return (text, start, end) => {
    const contraction = endOfContraction(text, start, end, true);
    if (contraction > start) return contraction;
    const classes = classAt(text, start, end);
    if ((classes & LETTER) !== 0) return runOf(letter, text, start, end);
    if ((classes & NUMBER) !== 0) return endOfNumber(text, start, end, options.digits);
    if (!isNewline(text.charCodeAt(start))) {
      const next = start + widthAt(text, start);
      if ((classAt(text, next, end) & letter) !== 0) return runOf(letter, text, next, end);
    }
    if ((classes & letter) !== 0) return runOf(letter, text, start, end);
    return endOfPunctuation(letter, text, start, end, isTail);
  };
}

/** Lengths of white space that Jais 2 has tokens for. */
const SPACES = [512, 256, 128, 64, 32, 16, 8, 4, 2, 1] as const;

/**
 * `\s{512}(?!\S)|\s{256}(?!\S)|…|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}` in place of `\s+(?!\S)|\s+` at the end of {@link words}: cuts their pieces of white space
 * without line ends. What follows such a piece is not in it, so that its own end decides as the look-ahead does.
 */
export const spacesByLength: Rule = (text, start, end) => {
  const isSpace = (classAt(text, end - 1, end) & SPACE) !== 0 && !isNewline(text.charCodeAt(end - 1));
  if (!isSpace) return end;
  return start + (SPACES.find((length) => length <= end - start) ?? 1);
};

/**
 * `[^\r\n\p{L}\p{N}]?U*W+C?|[^\r\n\p{L}\p{N}]?U+W*C?|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
 * with `U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`, `W = [\p{Ll}\p{Lm}\p{Lo}\p{M}]`, `C` a contraction in any case or nothing:
 * words break where a capital follows a small letter. The rule of GPT-4o (with `C`) and Mistral's Tekken (without).
 */
export function casedWords(options: { readonly digits: number; readonly contractions: boolean }): Rule {
  return (text, start, end) => {
    const classes = classAt(text, start, end);
    if ((classes & NUMBER) !== 0) return endOfNumber(text, start, end, options.digits);
    const word = endOfCasedWord(text, start, end, classes);
    if (word > start) return options.contractions ? endOfContraction(text, word, end, true) : word;
    return endOfPunctuation(LETTER, text, start, end, (unit) => isNewline(unit) || unit === 0x2f);
  };
}

/** The two word alternatives of {@link casedWords}, each first with and then without the character in front. */
function endOfCasedWord(text: string, start: number, end: number, classes: number): number {
  const hasPrefix = (classes & LETTER) === 0 && !isNewline(text.charCodeAt(start));
  const afterPrefix = hasPrefix ? start + widthAt(text, start) : start;
  return (
    endOfMixed(text, afterPrefix, end) ??
    (hasPrefix ? endOfMixed(text, start, end) : undefined) ??
    endOfCapitals(text, afterPrefix, end) ??
    (hasPrefix ? endOfCapitals(text, start, end) : undefined) ??
    start
  );
}

/** `U*W+`. Without a small letter after the run of `U`, the last of the run that is also in `W` must serve. */
function endOfMixed(text: string, start: number, end: number): number | undefined {
  let lastCaseless: number | undefined;
  let at = start;
  for (let classes = classAt(text, at, end); (classes & (upper | caseless | mark)) !== 0; ) {
    at += widthAt(text, at);
    if ((classes & (caseless | mark)) !== 0) lastCaseless = at;
    classes = classAt(text, at, end);
  }
  if ((classAt(text, at, end) & lower) === 0) return lastCaseless;
  return runOf(lower | caseless | mark, text, at, end);
}

/** `U+W*`, tried where `U*W+` failed: there is no `W` after the run. */
function endOfCapitals(text: string, start: number, end: number): number | undefined {
  const run = runOf(upper | caseless | mark, text, start, end);
  return run > start ? run : undefined;
}

function endOfNumber(text: string, start: number, end: number, digits: number): number {
  let at = start;
  for (let i = 0; i < digits && (classAt(text, at, end) & NUMBER) !== 0; i++) at += widthAt(text, at);
  return at;
}

/** ` ?[^\s\p{L}\p{N}]+T*|\s*[\r\n]+|\s+(?!\S)|\s+` with `letter` for `\p{L}` and `isTail` for `T`. */
function endOfPunctuation(
  letter: number,
  text: string,
  start: number,
  end: number,
  isTail: (unit: number) => boolean,
): number {
  const first = text.charCodeAt(start) === BLANK ? start + 1 : start;
  let at = runOfOther(letter | NUMBER, text, first, end);
  if (at === first) return endOfSpaceOrLines(text, start, end);
  while (at < end && isTail(text.charCodeAt(at))) at++;
  return at;
}

/** `\p{N}{1,digits}` */
export function digits(most: number): Rule {
  return (text, start, end) => endOfNumber(text, start, end, most);
}

/** ``[\p{P}$+<=>^~|`]+``, or without the grave accent in llama.cpp's "default". */
export function punctuationRun(withGraveAccent: boolean): Rule {
  const extra = withGraveAccent ? '$+<=>^~|`' : '$+<=>^~|';
  return (text, start, end) => {
    let at = start;
    while (at < end && ((classAt(text, at, end) & punctuation) !== 0 || extra.includes(text[at]!))) {
      at += widthAt(text, at);
    }
    return at;
  };
}

/** `[0-9][0-9][0-9]` */
export const threeAsciiDigits: Rule = (text, start, end) => {
  if (start + 3 > end) return start;
  for (let at = start; at < start + 3; at++) if (!isAsciiDigit(text.charCodeAt(at))) return start;
  return start + 3;
};

function isAsciiDigit(unit: number): boolean {
  return unit >= 0x30 && unit <= 0x39;
}

/** `[\r\n]` */
export const newline: Rule = (text, start) => (isNewline(text.charCodeAt(start)) ? start + 1 : start);

/** `\s?[C]+` with `bits` for `C`. */
export function spacedRun(bits: number): Rule {
  return spaced((text, start, end) => runOf(bits, text, start, end));
}

/** `\s?` in front of a rule. */
export function spaced(rule: Rule): Rule {
  return (text, start, end, first) => {
    const from = (classAt(text, start, end) & SPACE) !== 0 ? start + 1 : start;
    const match = rule(text, from, end, first);
    return match > from ? match : start;
  };
}

/** `\s+$` */
export const spaceAtEnd: Rule = (text, start, end, first) => {
  // A run that does not reach the end is looked at once and not again from each of its characters.
  if (start > first && (classAt(text, start - 1, end) & SPACE) !== 0) return start;
  const run = runOf(SPACE, text, start, end);
  return run === end ? run : start;
};

/** `[first-last…]+` for code points in any of the ranges. */
export function runOfRanges(...ranges: readonly (readonly [first: number, last: number])[]): Rule {
  return (text, start, end) => {
    let at = start;
    while (at < end && ranges.some(([first, last]) => isBetween(text.codePointAt(at)!, first, last))) {
      at += widthAt(text, at);
    }
    return at;
  };
}

function isBetween(codePoint: number, first: number, last: number): boolean {
  return codePoint >= first && codePoint <= last;
}

/** `[set]+` for a set as an expression writes it, without escapes: single characters and ranges. */
export function runOfSet(set: string): Rule {
  const characters = [...set];
  const members = new Set<number>();
  for (let i = 0; i < characters.length; i++) {
    const first = characters[i]!.codePointAt(0)!;
    const isRange = characters[i + 1] === '-' && i + 2 < characters.length;
    const last = isRange ? characters[i + 2]!.codePointAt(0)! : first;
    for (let codePoint = first; codePoint <= last; codePoint++) members.add(codePoint);
    if (isRange) i += 2;
  }
  return (text, start, end) => {
    let at = start;
    while (at < end && members.has(text.codePointAt(at)!)) at += widthAt(text, at);
    return at;
  };
}

/** ` ?[^(\s|.,!?…。，、।۔،)]+`, the rule of BLOOM: parentheses and the bar belong to the set. */
export const bloomWords: Rule = (text, start, end) => {
  const isWord = (at: number) =>
    at < end && (classAt(text, at, end) & SPACE) === 0 && !'(|.,!?…。，、।۔،)'.includes(text[at]!);
  const first = text.charCodeAt(start) === BLANK ? start + 1 : start;
  let at = first;
  while (isWord(at)) at += widthAt(text, at);
  return at > first ? at : start;
};

/**
 * ``[!"#$%&'()*+,\-./:;<=>?@[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+``,
 * the rule of DeepSeek V3.
 */
export const deepseekWords: Rule = (text, start, end) => {
  const unit = text.charCodeAt(start);
  const classes = classAt(text, start, end);
  if (unit < 0x80 && (classes & (punctuation | symbol)) !== 0) {
    let at = start + 1;
    while (at < end && isAsciiLetter(text.charCodeAt(at))) at++;
    if (at > start + 1) return at;
  }
  if ((classes & LETTER) !== 0) return runOf(LETTER | mark, text, start, end);
  if ((classes & (punctuation | symbol)) === 0 && !isNewline(unit)) {
    const next = start + widthAt(text, start);
    const run = runOf(LETTER | mark, text, next, end);
    if (run > next) return run;
    if ((classes & mark) !== 0) return next;
  }
  const first = unit === BLANK ? start + 1 : start;
  let at = runOf(punctuation | symbol, text, first, end);
  if (at === first) return (classes & SPACE) !== 0 ? endOfSpaceOrLines(text, start, end) : start;
  while (at < end && isNewline(text.charCodeAt(at))) at++;
  return at;
};

function isAsciiLetter(unit: number): boolean {
  return (unit | 0x20) >= 0x61 && (unit | 0x20) <= 0x7a;
}
