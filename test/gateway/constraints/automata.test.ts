import { describe, expect, it } from 'vitest';
import {
  type Automaton,
  accepts,
  bothOf,
  complementOf,
  eitherOf,
  textsAutomaton,
} from '../../../src/gateway/constraints/automaton.js';
import { Budget } from '../../../src/gateway/constraints/budget.js';
import {
  type CodePointSet,
  codePoints,
  complement,
  has,
  intersection,
  unionOf,
} from '../../../src/gateway/constraints/code-points.js';
import { patternAutomaton } from '../../../src/gateway/constraints/pattern-automaton.js';
import { Random } from '../../support/random.js';
import { seed } from '../../support/run-size.js';

/** Code points around every bound that the sets below may have. */
const TRIED = [...Array.from({ length: 44 }, (_, at) => at), 0xd7ff, 0xd800, 0xdfff, 0xe000, 0x10fffe, 0x10ffff];
const isScalar = (codePoint: number): boolean => codePoint < 0xd800 || codePoint > 0xdfff;

function randomSet(random: Random): CodePointSet {
  const ranges = Array.from({ length: random.below(5) }, (): [number, number] => {
    const first = random.below(40);
    return [first, first + random.below(4)];
  });
  if (random.below(4) === 0) ranges.push([30, 0xd7ff]);
  if (random.below(4) === 0) ranges.push([0xe000, 0x10ffff]);
  return codePoints(...ranges);
}

/** Sorted ranges that neither overlap nor touch. */
function isNormal(set: CodePointSet): boolean {
  return set.every((bound, index) =>
    index === 0 ? true : index % 2 === 1 ? bound >= set[index - 1]! : bound > set[index - 1]! + 1,
  );
}

describe('sets of code points', () => {
  it('are united, intersected and complemented as their members say', () => {
    const random = new Random(seed(31));
    for (let round = 0; round < 500; round++) {
      const sets = Array.from({ length: 1 + random.below(5) }, () => randomSet(random));
      const [a, b = []] = sets;
      const [all, common, outside] = [unionOf(sets), intersection(a!, b), complement(a!)];
      for (const set of [all, common, outside]) expect(isNormal(set), set.join()).toBe(true);
      for (const codePoint of TRIED) {
        const isIn = (set: CodePointSet) =>
          set.some((first, at) => at % 2 === 0 && first <= codePoint && codePoint <= set[at + 1]!);
        expect(has(all, codePoint)).toBe(sets.some(isIn));
        expect(has(common, codePoint)).toBe(isIn(a!) && isIn(b));
        expect(has(outside, codePoint)).toBe(isScalar(codePoint) && !isIn(a!));
      }
    }
  });
});

describe('automata', () => {
  const work = new Budget('json_schema');

  /** States that no text tells apart would be one in the smallest automaton. */
  function isSmallest({ alphabet, next, accepting }: Automaton): boolean {
    const size = accepting.length;
    const differ = Array.from({ length: size }, (_, a) =>
      Array.from({ length: size }, (_, b) => accepting[a] !== accepting[b]),
    );
    for (let isNew = true; isNew; ) {
      isNew = false;
      for (let a = 0; a < size; a++) {
        for (let b = 0; b < size; b++) {
          if (differ[a]![b]) continue;
          for (let of = 0; of < alphabet.classes; of++) {
            if (!differ[next[a * alphabet.classes + of]!]![next[b * alphabet.classes + of]!]) continue;
            differ[a]![b] = true;
            isNew = true;
          }
        }
      }
    }
    return differ.every((row, a) => row.every((is, b) => is || a === b));
  }

  it('of texts, of patterns and of both accept what they should, with the fewest states', () => {
    const random = new Random(seed(32));
    const letter = () => 'abcé'[random.below(4)]!;
    const word = () => Array.from({ length: random.below(5) }, letter).join('');
    for (let round = 0; round < 60; round++) {
      const texts = Array.from({ length: random.below(12) }, word);
      const pattern = ['a*b', '^(ab|c)*$', '[a-c]{2}', 'é$', '^$', '(a?b){1,2}c'][random.below(6)]!;
      const [listed, matching] = [textsAutomaton(texts, work), patternAutomaton(pattern, 'search', work)];
      const native = new RegExp(pattern, 'u');
      const automata: [Automaton, (text: string) => boolean][] = [
        [listed, (text) => texts.includes(text)],
        [matching, (text) => native.test(text)],
        [bothOf(complementOf(listed), matching, work), (text) => !texts.includes(text) && native.test(text)],
        [eitherOf(listed, matching, work), (text) => texts.includes(text) || native.test(text)],
      ];
      for (const [automaton, isWanted] of automata) {
        for (const text of [...texts, ...Array.from({ length: 40 }, word)]) {
          expect(accepts(automaton, text), `${JSON.stringify(text)}, ${texts.join()}, ${pattern}`).toBe(isWanted(text));
        }
        expect(isSmallest(automaton)).toBe(true);
      }
    }
  });
});
