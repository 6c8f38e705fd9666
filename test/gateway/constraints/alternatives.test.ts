import { expect, it } from 'vitest';
import { codePoints } from '../../../src/gateway/constraints/code-points.js';
import {
  characters,
  choice,
  type Expression,
  Grammar,
  optional,
  repeat,
  sequence,
  text,
} from '../../../src/gateway/constraints/grammar.js';
import { grammarOf } from '../../../src/gateway/constraints/grammar-of.js';
import { Work } from '../../../src/gateway/constraints/work.js';
import { derived, produces } from '../../support/expression-matcher.js';
import { acceptedBy } from '../../support/grammar-library.js';
import { Random } from '../../support/random.js';
import { runs, seed } from '../../support/run-size.js';

const LETTERS = ['a', 'b', 'é'];

/** Rules whose alternatives begin and end alike, as the library's optimizer gets wrong unless they are factored. */
function randomRules(random: Random): ReadonlyMap<string, Expression> {
  const word = () =>
    text(Array.from({ length: 1 + random.below(6) }, () => LETTERS[random.below(LETTERS.length)]).join(''));
  const classes = [
    characters(codePoints([0x61, 0x62])),
    characters(codePoints([0xe8, 0xe9])),
    characters(codePoints([0x61, 0x61], [0xe8, 0xff])),
  ];
  const names = ['r0', 'r1', 'r2'];
  const expression = (depth: number, rules: readonly string[]): Expression => {
    const part = (): Expression => {
      const kind = random.below(8);
      if (kind < 3) return word();
      if (kind === 3) return classes[random.below(classes.length)]!;
      if (kind === 4 && rules.length > 0) return { kind: 'rule', name: rules[random.below(rules.length)]! };
      if (kind === 5 && depth > 0) return optional(expression(depth - 1, rules));
      if (kind === 6 && depth > 0) return repeat(expression(depth - 1, rules), random.below(2), 2);
      return depth > 0 ? expression(depth - 1, rules) : word();
    };
    const option = () =>
      random.below(4) > 0 ? word() : sequence(...Array.from({ length: 1 + random.below(3) }, part));
    return choice(...Array.from({ length: 1 + random.below(4) }, option));
  };
  const rules = new Map(names.map((name, index) => [name, expression(0, names.slice(index + 1))]));
  return rules.set('root', expression(1, names));
}

it('alternatives that begin or end alike produce their texts and no others', async () => {
  const random = new Random(seed(31));
  let produced = 0;
  for (let round = 0; round < runs(1000); round++) {
    const rules = randomRules(random);
    const grammar = new Grammar(new Work('grammar'));
    for (const [name, content] of rules) grammar.set(name, content);
    const texts = new Set(Array.from({ length: 5 }, () => derived(rules, random).slice(0, 16)));
    for (const one of [...texts]) {
      // Pieces that are written twice, left out or swapped.
      const letters = [...one];
      const [from, to] = [random.below(letters.length + 1), random.below(letters.length + 1)];
      const [first, last] = [Math.min(from, to), Math.max(from, to)];
      texts.add([...letters.slice(0, last), ...letters.slice(first)].join(''));
      texts.add([...letters.slice(0, first), ...letters.slice(last)].join(''));
    }
    const expected = [...texts].filter((one) => produces(rules, one));
    produced += expected.length;
    const made = grammar.toText(rules.get('root')!)!;
    expect(await acceptedBy(made, [...texts]), made).toEqual(expected);
  }
  expect(produced).toBeGreaterThan(runs(1000));
});

it.each<[Parameters<typeof grammarOf>[0], readonly string[], readonly string[]]>([
  [{ $case: 'choice', value: { options: ['abcbd', 'abd'] } }, ['abcbd', 'abd'], ['abcbcbd', 'abcd']],
  [{ $case: 'regex', value: 'abcbd|abd' }, ['abcbd', 'abd'], ['abcbcbd', 'abcd']],
  [
    { $case: 'grammar', value: 'root ::= "[" [_ ] [80] [_ ] "]" | "[" [_ ] "]"' },
    ['[ 8 ]', '[ ]'],
    ['[ 8 8 ]', '[ 8]'],
  ],
  [
    { $case: 'grammar', value: 'root ::= a | b\na ::= "[" s i s "]"\nb ::= "[" s "]"\ns ::= "_" | " "\ni ::= [80]' },
    ['[ 8 ]', '[ ]'],
    ['[ 8 8 ]'],
  ],
  [
    { $case: 'jsonSchema', value: '{"enum": ["abcbd", "abd", 1011, 101]}' },
    ['"abcbd"', '"abd"', '1011', '101'],
    ['"abcbcbd"', '10111'],
  ],
  [
    {
      $case: 'jsonSchema',
      value: '{"anyOf": [{"type": "array", "items": {"enum": [8, 0]}, "minItems": 1}, {"const": []}]}',
    },
    ['[8, 0]', '[]', '[ 8 ]'],
    ['[80]', '[8 0]'],
  ],
])('%j has its texts and no others', async (constraint, valid, invalid) => {
  expect(await acceptedBy(grammarOf(constraint), [...valid, ...invalid])).toEqual(valid);
});

it('alternatives that each begin the next are shared without nesting as deep as there are', async () => {
  const options = Array.from({ length: 600 }, (_, i) => 'a'.repeat(i + 1));
  const grammar = grammarOf({ $case: 'choice', value: { options } });
  expect(Math.max(...grammar.split('\n').map((line) => [...line.matchAll(/\(/g)].length))).toBeLessThan(20);
  expect(await acceptedBy(grammar, ['a', 'a'.repeat(600), 'a'.repeat(601), 'aab'])).toEqual(['a', 'a'.repeat(600)]);
});
