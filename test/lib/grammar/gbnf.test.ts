import { describe, expect, it } from 'vitest';
import { constraintGrammar } from '../../../src/lib/grammar/constraint-grammar.js';
import { parseGbnf } from '../../../src/lib/grammar/gbnf-syntax.js';
import { acceptedBy } from '../../support/byte-engine.js';
import { derived, produces } from '../../support/expression-matcher.js';
import { GBNF_GRAMMARS } from '../../support/gbnf-grammars.js';
import { Random } from '../../support/random.js';
import { seed } from '../../support/run-size.js';

describe('a grammar in GBNF produces what a plain matcher of its rules does', () => {
  for (const [name, source] of GBNF_GRAMMARS) {
    it(name, async () => {
      const { rules } = parseGbnf(source);
      const random = new Random(seed(5));
      const texts = new Set(['']);
      for (let round = 0; round < 40; round++) {
        const characters = [...derived(rules, random)].slice(0, 60);
        texts.add(characters.join(''));
        // The same with a character doubled, dropped or moved: mostly wrong.
        const at = random.below(characters.length + 1);
        texts.add([...characters.slice(0, at), ...characters.slice(at - 1)].join(''));
        texts.add([...characters.slice(0, at), ...characters.slice(at + 1)].join(''));
      }
      const produced = [...texts].filter((text) => produces(rules, text));
      expect(produced.length, 'texts that it produces').toBeGreaterThan(0);
      expect(produced.length, 'texts in all').toBeLessThan(texts.size);
      expect(await acceptedBy(constraintGrammar({ $case: 'grammar', value: source }), [...texts])).toEqual(produced);
    });
  }
});

describe('what GBNF means', () => {
  const cases: [string, string, string[], string[]][] = [
    [
      'a newline ends a rule, but for groups and after |',
      'root ::= "a" |\n"b" (\n"c"\n)\nx ::= "y"',
      ['a', 'bc'],
      ['b', 'ac'],
    ],
    ['+ binds to one element', 'root ::= "a" "b"+', ['ab', 'abb'], ['abab', 'a']],
    ['a quantifier binds to a whole literal', 'root ::= "ab"+', ['ab', 'abab'], ['abb']],
    ['{m} is as often as that', 'root ::= "a"{3}', ['aaa'], ['', 'aa', 'aaaa', 'aaaaaa']],
    ['{m,} is at least as often', 'root ::= [0-9]{2,}', ['01', '0123456'], ['', '0']],
    ['{m,n} is from one to the other', 'root ::= ("ab"){1,3}', ['ab', 'ababab'], ['', 'abababab', 'aba']],
    ['{0} is nothing', 'root ::= "a"{0} "b"', ['b'], ['ab']],
    ['spaces in counts mean nothing', 'root ::= "a"{ 1 , 2 } "b"{ 2 }', ['abb', 'aabb'], ['ab', 'aaabb', 'abbb']],
    ['a comment ends at the line', 'root ::= "a" # "b"\n', ['a'], ['ab']],
    ['a dash at the end of a class is itself', 'root ::= [a-c-]', ['b', '-'], ['d']],
  ];
  for (const [says, source, valid, invalid] of cases) {
    it(says, async () => {
      expect(await acceptedBy(constraintGrammar({ $case: 'grammar', value: source }), [...valid, ...invalid])).toEqual(
        valid,
      );
    });
  }
});

describe('a grammar that is refused names line and column', () => {
  const refused: [string, string, string, string][] = [
    ['an undefined rule', 'root ::= "a"\n  b ::= c', 'CONSTRAINT_INVALID', 'line 2, column 9'],
    ['no root', 'a ::= "a"', 'CONSTRAINT_INVALID', 'line 1, column 10'],
    ['nothing at all', '', 'CONSTRAINT_INVALID', 'line 1, column 1'],
    ['a token', 'root ::= "a" <[12]>', 'CONSTRAINT_UNSUPPORTED', 'line 1, column 14'],
    ['a negated token', 'root ::= !<think>', 'CONSTRAINT_UNSUPPORTED', 'line 1, column 10'],
    ['an open literal', 'root ::= "a\n', 'CONSTRAINT_INVALID', 'line 1, column 10'],
    ['an open group', 'root ::= ("a"', 'CONSTRAINT_INVALID', 'line 1, column 10'],
    ['a rule twice', 'root ::= "a"\nroot ::= "b"', 'CONSTRAINT_INVALID', 'line 2, column 1'],
    ['a wrong escape', 'root ::= "\\q"', 'CONSTRAINT_INVALID', 'line 1, column 11'],
    ['a stray character', 'root ::= "a" ;', 'CONSTRAINT_INVALID', 'line 1, column 14'],
    ['no ::=', 'root = "a"', 'CONSTRAINT_INVALID', 'line 1, column 6'],
    ['a range out of order', 'root ::= [b-a]', 'CONSTRAINT_INVALID', 'line 1, column 10'],
    ['counts out of order', 'root ::= "a"{3,2}', 'CONSTRAINT_INVALID', 'line 1, column 13'],
    ['a count too large', 'root ::= "a"{99999}', 'CONSTRAINT_UNSUPPORTED', 'line 1, column 13'],
    [
      'groups too deep',
      `root ::= ${'('.repeat(500)}"a"${')'.repeat(500)}`,
      'CONSTRAINT_UNSUPPORTED',
      'line 1, column 74',
    ],
    ['no text that can be finished', 'root ::= "a" root', 'CONSTRAINT_INVALID', 'line 1, column 18'],
  ];
  for (const [what, source, reason, at] of refused) {
    it(what, () => {
      const make = () => constraintGrammar({ $case: 'grammar', value: source });
      expect(make).toThrow(expect.objectContaining({ reason, metadata: expect.objectContaining({ at }) }));
    });
  }
});

describe('a grammar that is long is taken or refused by name', () => {
  const long: [string, string][] = [
    ['alternatives', `root ::= ${'a|'.repeat(120_000)}"b"\na ::= "a"`],
    ['elements', `root ::= ${'"a" '.repeat(60_000)}`],
    ['a literal', `root ::= "${'a'.repeat(250_000)}"`],
    ['a class', `root ::= [${'ab'.repeat(120_000)}]`],
  ];
  for (const [what, source] of long) {
    it(what, () => {
      let reason = 'none';
      try {
        constraintGrammar({ $case: 'grammar', value: source });
      } catch (error) {
        reason = (error as { reason?: string }).reason ?? String(error);
      }
      expect(['none', 'CONSTRAINT_UNSUPPORTED']).toContain(reason);
    });
  }
});
