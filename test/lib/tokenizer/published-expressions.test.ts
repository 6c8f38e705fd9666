import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DEEPSEEK_LETTERS, forEachPiece, preTokenizerNamed } from '../../../src/lib/tokenizer/pre-tokenizer.js';
import { CODE_POINT_CLASSES } from '../../../src/lib/unicode/code-point-classes.js';
import { runs } from '../../support/run-size.js';

/** Hugging Face's `tokenizers`, the library the models were trained with; 65 MB, so the peers have it and this has not. */
interface Peer {
  readonly Tokenizer: {
    fromString(json: string): {
      getPreTokenizer(): { preTokenizeString(text: string): readonly (readonly [piece: string, range: unknown])[] };
    };
  };
}

const folder = resolve(process.env.ROCMFORGE_PEERS ?? 'bench/peers');
const isInstalled = existsSync(join(folder, 'node_modules/tokenizers'));
if (!isInstalled)
  console.log('published expressions skipped: "tokenizers" is not installed in bench/peers (npm ci there)');

const TAIL = String.raw` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;
const CASCADE = String.raw` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}`;
const CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const CASED = String.raw`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+C|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*C|\p{N}D| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`;

/** As the models' own `tokenizer.json` has them. */
const PUBLISHED: Readonly<Record<string, readonly string[]>> = {
  'gpt-2': [String.raw`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`],
  'llama-bpe': [String.raw`${CONTRACTION}|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|${TAIL}`],
  qwen2: [String.raw`${CONTRACTION}|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|${TAIL}`],
  qwen35: [
    String.raw`${CONTRACTION}|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
  ],
  'jais-2': [String.raw`${CONTRACTION}|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|${CASCADE}`],
  'seed-coder': [
    String.raw`${CONTRACTION}|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+`,
  ],
  'gpt-4o': [CASED.replaceAll('C', `${CONTRACTION}?`).replace('D', '{1,3}')],
  tekken: [CASED.replaceAll('C', '').replace('D', '')],
  'deepseek-llm': [
    '[\r\n]',
    `\\s?[${DEEPSEEK_LETTERS}]+`,
    String.raw`\s?[!-/:-~！-／：-～‘-‟　-。]+`,
    String.raw`\s+$`,
    '[一-龥ࠀ-一가-퟿]+',
    String.raw`\p{N}+`,
  ],
  'deepseek-v3': [
    String.raw`\p{N}{1,3}`,
    '[一-龥぀-ゟ゠-ヿ]+',
    String.raw`[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_${'`'}{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
  ],
};

const unit = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.constantFrom(
      ..." \n\r\t'aBcZ019.,/!$|<>`_sStTdDmMéßÄ中あア한क्\u0301\u0085\u00a0\u2028\ufeff\u200dªʰǅ²٣。😀𝐀𐐀",
    ),
  },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      "'re",
      "'VE",
      "'LL",
      "'ſ",
      '  ',
      '\r\n',
      '1234',
      'ABCdef',
      'e\u0301',
      'นี้',
      'हिन्दी',
      'עִבְרִית',
      'Ё\u0308',
    ),
  },
  {
    weight: 1,
    arbitrary: fc
      .string({ unit: 'binary', minLength: 1, maxLength: 1 })
      .filter((character) => CODE_POINT_CLASSES[character.codePointAt(0)!] !== 0),
  },
);

function piecesHere(text: string, name: string): string[] {
  const pieces: string[] = [];
  forEachPiece(text, preTokenizerNamed(name).rules, (start, end) => pieces.push(text.slice(start, end)));
  return pieces;
}

describe.skipIf(!isInstalled)('expressions that models publish', () => {
  it.each(Object.keys(PUBLISHED))("cut text as the models' own library does: %s", (name) => {
    const { Tokenizer } = createRequire(join(folder, 'package.json'))('tokenizers') as Peer;
    const pretokenizers = PUBLISHED[name]!.map((expression) => {
      return { type: 'Split', pattern: { Regex: expression }, behavior: 'Isolated', invert: false };
    });
    const json = {
      version: '1.0',
      pre_tokenizer: { type: 'Sequence', pretokenizers },
      model: { type: 'BPE', vocab: {}, merges: [] },
    };
    const peer = Tokenizer.fromString(JSON.stringify(json)).getPreTokenizer();
    fc.assert(
      fc.property(fc.string({ unit, minLength: 1, maxLength: 40 }), (text) => {
        expect(piecesHere(text, name)).toEqual(peer.preTokenizeString(text).map(([piece]) => piece));
      }),
      { numRuns: runs(2000) },
    );
  });
});
