import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DEEPSEEK_LETTERS, forEachPiece, preTokenizerNamed } from '../../../src/lib/tokenizer/pre-tokenizer.js';
import { CODE_POINT_CLASSES, CodePointClass } from '../../../src/lib/unicode/code-point-classes.js';
import { runs } from '../../support/run-size.js';

/** The models' own expressions, run by JavaScript's engine: the slow, plain twins of the scanners. */
const GPT2 = String.raw`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`;
const CONTRACTION = `(?:'[sSſ]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])`;
const TAIL = String.raw` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;
const CASCADE = String.raw` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|${[512, 256, 128, 64, 32, 16, 8, 4].map((n) => `\\s{${n}}(?!\\S)`).join('|')}|\s{1,2}(?!\S)|\s{1}`;
const UPPER = String.raw`[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`;
const LOWER = String.raw`[\p{Ll}\p{Lm}\p{Lo}\p{M}]`;
const FRONT = String.raw`[^\r\n\p{L}\p{N}]?`;
const CASED = (contraction: string, digits: string) =>
  String.raw`${FRONT}${UPPER}*${LOWER}+${contraction}|${FRONT}${UPPER}+${LOWER}*${contraction}|\p{N}${digits}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`;
const BLOOM = String.raw` ?[^(\s|.,!?…。，、।۔،)]+`;
const PUNCTUATION = String.raw`[\p{P}$+<=>^~|]+`;
const MARKED = String.raw`[!"#$%&'()*+,\-.\/:;<=>?@\[\\\]^_\x60{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;

const EXPRESSIONS: Record<string, readonly string[]> = {
  'gpt-2': [GPT2],
  starcoder: [String.raw`\p{N}`, GPT2],
  'llama-bpe': [String.raw`${CONTRACTION}|${FRONT}\p{L}+|\p{N}{1,3}|${TAIL}`],
  qwen2: [String.raw`${CONTRACTION}|${FRONT}\p{L}+|\p{N}|${TAIL}`],
  'jais-2': [String.raw`${CONTRACTION}|${FRONT}\p{L}+|\p{N}{1,3}|${CASCADE}`],
  'seed-coder': [String.raw`${CONTRACTION}|${FRONT}\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+`],
  qwen35: [
    String.raw`${CONTRACTION}|${FRONT}[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
  ],
  'gpt-4o': [CASED(`${CONTRACTION}?`, '{1,3}')],
  tekken: [CASED('', '')],
  'deepseek-llm': [
    String.raw`[\r\n]`,
    `\\s?[${DEEPSEEK_LETTERS}]+`,
    String.raw`\s?[!-\/:-~！-／：-～‘-‟　-。]+`,
    String.raw`\s+$`,
    String.raw`[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+`,
    String.raw`\p{N}+`,
  ],
  'deepseek-coder': [
    String.raw`[\r\n]`,
    String.raw`\s?\p{L}+`,
    String.raw`\s?\p{P}+`,
    String.raw`[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+`,
    String.raw`\p{N}`,
  ],
  'deepseek-v3': [String.raw`\p{N}{1,3}`, String.raw`[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+`, MARKED],
  falcon: [PUNCTUATION.replace('|]', '|\\x60]'), GPT2, '[0-9][0-9][0-9]'],
  bloom: [BLOOM],
  viking: [BLOOM, String.raw`\p{N}`],
  default: [PUNCTUATION, GPT2, String.raw`\p{N}+`, '[0-9][0-9][0-9]'],
};

/** JavaScript's `\s` has U+FEFF and lacks U+0085; the models' is Unicode's White_Space. */
const asUnicode = (source: string) =>
  new RegExp(source.replaceAll('\\s', '\\p{White_Space}').replaceAll('\\S', '\\P{White_Space}'), 'gu');

function piecesByExpression(text: string, sources: readonly string[]): string[] {
  let pieces = [text];
  for (const source of sources) {
    pieces = pieces.flatMap((piece) => {
      const parts: string[] = [];
      let end = 0;
      for (const match of piece.matchAll(asUnicode(source))) {
        parts.push(piece.slice(end, match.index), match[0]);
        end = match.index + match[0].length;
      }
      return [...parts, piece.slice(end)].filter((part) => part !== '');
    });
  }
  return pieces;
}

function piecesByScanner(text: string, name: string): string[] {
  const pieces: string[] = [];
  forEachPiece(text, preTokenizerNamed(name).rules, (start, end) => pieces.push(text.slice(start, end)));
  return pieces;
}

/** Changed since the table's version of Unicode: U+0295 from Ll to Lo, in 17.0. */
const CHANGED: ReadonlySet<number> = new Set([0x295]);

/** True if the engine's Unicode may know the code point differently than the table's version. */
function isNewer(codePoint: number): boolean {
  const isKnown = CODE_POINT_CLASSES[codePoint] !== 0;
  return CHANGED.has(codePoint) || (!isKnown && /[\p{L}\p{M}\p{N}\p{P}\p{S}]/u.test(String.fromCodePoint(codePoint)));
}

const text = fc.string({
  unit: fc.oneof(
    {
      weight: 6,
      arbitrary: fc.constantFrom(
        ..." \n\r\t'aBcZ019.,/!$|<>`_()sStTdDmMéßÄ中あア한क्\u0301\u0085\u00a0\u2028\ufeff\u200dªʰǅ²٣。،😀𝐀𐐀",
      ),
    },
    { weight: 2, arbitrary: fc.constantFrom("'re", "'VE", "'ll", "'ſ", '  ', '\r\n', '1234', 'ABCdef', 'e\u0301') },
    {
      weight: 1,
      arbitrary: fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }).filter((c) => !isNewer(c.codePointAt(0)!)),
    },
  ),
  maxLength: 40,
});

describe.each(Object.keys(EXPRESSIONS))('the pre-tokenizer %s', (name) => {
  it('cuts any text as its regular expressions do', () => {
    fc.assert(
      fc.property(text, (sample) => {
        expect(piecesByScanner(sample, name)).toEqual(piecesByExpression(sample, EXPRESSIONS[name]!));
      }),
      { numRuns: runs(1500) },
    );
  });
});

describe('white space by its length', () => {
  const lengths = [...Array(70).keys(), 127, 128, 129, 255, 257, 511, 512, 513, 514, 1025, 1600];
  it.each(['', 'a', '1', '!', '\n', '\na', '\u00a0b'])('before %j', (next) => {
    for (const length of lengths) {
      const sample = `x${' '.repeat(length)}${next}`;
      expect(piecesByScanner(sample, 'jais-2'), `${length}`).toEqual(
        piecesByExpression(sample, EXPRESSIONS['jais-2']!),
      );
    }
  });
});

describe('the table of character classes', () => {
  it('is that of Unicode 15.1, whatever the engine has', () => {
    // Hash of the bytes that tools/build-unicode.mjs's table expands to, equal to llama.cpp's on every code point.
    expect(createHash('sha256').update(CODE_POINT_CLASSES).digest('hex')).toBe(
      '6c2248817fac7344aee14b4490d42671d85419e3397b0f187408e08564a0dab8',
    );
    const newer = [0x1c89, 0x1c8a, 0xa7cb, 0x1e6c0, 0x323b0];
    expect(newer.map((codePoint) => CODE_POINT_CLASSES[codePoint])).toEqual([0, 0, 0, 0, 0]);
    expect(CODE_POINT_CLASSES[0x295]).toBe(CodePointClass.lower);
  });

  it("agrees with the engine's Unicode properties on what both know", () => {
    const patterns: [number, RegExp][] = [
      [CodePointClass.upper, /^[\p{Lu}\p{Lt}]$/u],
      [CodePointClass.lower, /^\p{Ll}$/u],
      [CodePointClass.caseless, /^[\p{Lm}\p{Lo}]$/u],
      [CodePointClass.mark, /^\p{M}$/u],
      [CodePointClass.number, /^\p{N}$/u],
      [CodePointClass.space, /^\p{White_Space}$/u],
      [CodePointClass.punctuation, /^\p{P}$/u],
      [CodePointClass.symbol, /^\p{S}$/u],
    ];
    const wrong: number[] = [];
    for (let codePoint = 0; codePoint < 0x110000; codePoint++) {
      const character = String.fromCodePoint(codePoint);
      const classes = patterns.reduce((bits, [bit, pattern]) => (pattern.test(character) ? bits | bit : bits), 0);
      const known = CODE_POINT_CLASSES[codePoint]!;
      if (classes !== known && classes !== 0 && known !== 0 && !CHANGED.has(codePoint)) wrong.push(codePoint);
    }
    expect(wrong).toEqual([]);
  });
});
