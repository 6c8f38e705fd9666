import { describe, expect, it } from 'vitest';
import { constraintGrammar } from '../../../src/lib/grammar/constraint-grammar.js';
import { GrammarError } from '../../../src/lib/grammar/refusal.js';
import { acceptedBy } from '../../support/byte-engine.js';
import { Random } from '../../support/random.js';
import { seed } from '../../support/run-size.js';

/** Each with the characters that texts to try it on are made of. */
const PATTERNS: readonly [string, string][] = [
  ['[a-c]+', 'abcd'],
  ['(?:ab|cd)*', 'abcd'],
  ['a{2,4}b?', 'ab'],
  ['^a.c$', 'abc\n'],
  ['\\d{1,2}:\\d\\d', '1:2'],
  ['[^a-c]\\w*', 'abd_é'],
  ['(?<year>\\d)-(?<month>\\d)', '12-'],
  ['a+?b*?', 'abc'],
  ['(a|b|)c', 'abc'],
  ['\\s\\S', ' a\t\u00a0'],
  ['[\\d.-]+', '1.-a'],
  ['é|ж{2}|💩', 'éж💩'],
  ['[à-öЖ]+', 'àöЖ÷a'],
  ['\\p{Lu}\\p{Ll}*', 'Aaé1É'],
  ['[^\\p{Nd}]+', 'a1-'],
  ['\\u00e9\\u{1F4A9}?', 'é💩e'],
  ['(?=.*a)(?=.*b).{2,3}', 'abc'],
  ['(?!aa).*', 'ab'],
  ['((a?b){2}c?)*', 'abc'],
  ['\\\\"[\\]\\[]', '\\"[]'],
  ['x(^a|b$|c)', 'xabc'],
  ['[a-f0-9]{2}(?:-[a-f0-9]{2}){1,2}', 'a0-'],
];

describe('a regular expression matches whole texts as JavaScript does', () => {
  for (const [pattern, alphabet] of PATTERNS) {
    it(pattern, async () => {
      const letters = [...alphabet];
      const random = new Random(seed(11));
      const texts = new Set<string>(['', ...letters]);
      while (texts.size < 150) {
        texts.add(Array.from({ length: 1 + random.below(8) }, () => letters[random.below(letters.length)]!).join(''));
      }
      const native = new RegExp(`^(?:${pattern})$`, 'u');
      const matching = [...texts].filter((text) => native.test(text));
      expect(matching.length, 'texts that match').toBeGreaterThan(0);
      expect(await acceptedBy(constraintGrammar({ $case: 'regex', value: pattern }), [...texts])).toEqual(matching);
    });
  }
});

describe('a regular expression that is refused names its construct and the offset', () => {
  const refused: [string, string, string][] = [
    ['(a)\\1', 'CONSTRAINT_UNSUPPORTED', 'offset 3'],
    ['ab\\b', 'CONSTRAINT_UNSUPPORTED', 'offset 2'],
    ['(?<!a)b', 'CONSTRAINT_UNSUPPORTED', 'offset 0'],
    ['(?i)a', 'CONSTRAINT_UNSUPPORTED', 'offset 0'],
    ['[[:alpha:]]', 'CONSTRAINT_UNSUPPORTED', 'offset 1'],
    ['a(b', 'CONSTRAINT_INVALID', 'offset 1'],
    ['a)', 'CONSTRAINT_INVALID', 'offset 1'],
    ['[b-a]', 'CONSTRAINT_INVALID', 'offset 0'],
    ['a**', 'CONSTRAINT_INVALID', 'offset 2'],
    ['\\Z', 'CONSTRAINT_INVALID', 'offset 0'],
    ['a^b', 'CONSTRAINT_INVALID', 'offset 0'],
    ['(a|b)*a(a|b){20}', 'CONSTRAINT_UNSUPPORTED', 'offset 0'],
    // As many classes as there are characters.
    [
      Array.from({ length: 30_000 }, (_, at) => `[${String.fromCodePoint(0x4e00 + (at % 20_000), 0x5000 + at)}]`).join(
        '',
      ),
      'CONSTRAINT_UNSUPPORTED',
      'offset 0',
    ],
    [`[${'ab'.repeat(120_000)}`, 'CONSTRAINT_INVALID', 'offset 0'],
  ];
  for (const [pattern, reason, at] of refused) {
    it(pattern.slice(0, 40), () => {
      const make = () => constraintGrammar({ $case: 'regex', value: pattern });
      expect(make).toThrow(GrammarError);
      expect(make).toThrow(
        expect.objectContaining({ reason, metadata: expect.objectContaining({ at, field: 'constraint.regex' }) }),
      );
    });
  }
});
