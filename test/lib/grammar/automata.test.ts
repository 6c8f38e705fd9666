import { describe, expect, it } from 'vitest';
import { Automata, type Automaton } from '../../../src/lib/grammar/automata.js';
import { Budget } from '../../../src/lib/grammar/budget.js';
import {
  type CodePointSet,
  codePoints,
  complement,
  has,
  intersection,
  unionOf,
} from '../../../src/lib/grammar/code-points.js';
import { patternAutomaton } from '../../../src/lib/grammar/pattern-automaton.js';
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
  /** Sets of states that texts tell apart: the states of the smallest automaton, but for those behind which no text ends. */
  function smallest(automaton: Automaton, automata: Automata): { states: number; classes: number } {
    const states = [automaton];
    for (const state of states) {
      for (const to of automata.steps(state).keys()) if (!states.includes(to)) states.push(to);
    }
    const characters = [...'abcé', '\0'];
    const next = (state: Automaton, character: string) =>
      [...automata.steps(state)].find(([, set]) => has(set, character.codePointAt(0)!))?.[0];
    let classOf = new Map<Automaton | undefined, string>(states.map((state) => [state, `${state.accepts}`]));
    for (let count = 0; count !== new Set(classOf.values()).size; ) {
      count = new Set(classOf.values()).size;
      const before = classOf;
      const numbers = new Map([...new Set(before.values())].map((key, number) => [key, number]));
      const behind = (state: Automaton) => characters.map((one) => numbers.get(before.get(next(state, one)) ?? ''));
      classOf = new Map(states.map((state) => [state, `${numbers.get(before.get(state)!)} ${behind(state).join()}`]));
    }
    return { states: states.length, classes: new Set(classOf.values()).size };
  }

  it('of texts, of patterns and of both accept what they should, with few more states than the smallest', () => {
    const random = new Random(seed(32));
    const letter = () => 'abcé'[random.below(4)]!;
    const word = () => Array.from({ length: random.below(5) }, letter).join('');
    const sizes = { states: 0, classes: 0 };
    for (let round = 0; round < 60; round++) {
      const automata = new Automata(new Budget('json_schema'));
      const texts = Array.from({ length: random.below(12) }, word);
      const pattern = ['a*b', '^(ab|c)*$', '[a-c]{2}', 'é$', '^$', '(a?b){1,2}c', '(^|b)a+(c|$)', '.*(^a|b){2}'][
        random.below(8)
      ]!;
      const [listed, matching] = [automata.texts(texts), patternAutomaton(pattern, 'search', automata)];
      const native = new RegExp(pattern, 'u');
      const cases: [Automaton, (text: string) => boolean][] = [
        [listed, (text) => texts.includes(text)],
        [matching, (text) => native.test(text)],
        [automata.both(automata.not(listed), matching), (text) => !texts.includes(text) && native.test(text)],
        [automata.either(listed, matching), (text) => texts.includes(text) || native.test(text)],
        [automata.both(automata.lengths(2, 3), matching), (text) => /^.{2,3}$/u.test(text) && native.test(text)],
      ];
      for (const [automaton, isWanted] of cases) {
        const tried = [...texts, ...Array.from({ length: 40 }, word)];
        for (const text of tried) {
          expect(automaton.has(text), `${JSON.stringify(text)}, ${texts.join()}, ${pattern}`).toBe(isWanted(text));
        }
        if (automata.isEmpty(automaton)) {
          expect(tried.some(isWanted)).toBe(false);
          continue;
        }
        const { states, classes } = smallest(automaton, automata);
        sizes.states += states;
        sizes.classes += classes;
      }
    }
    expect(sizes.states).toBeLessThan(1.25 * sizes.classes);
  });

  it('agree with JavaScript on random patterns with anchors anywhere', () => {
    const random = new Random(seed(33));
    const pattern = (depth: number): string => {
      const choices = depth === 0 ? 5 : 9;
      switch (random.below(choices)) {
        case 0:
          return '^';
        case 1:
          return '$';
        case 2:
          return '[ab]';
        case 5:
          return `(?:${pattern(depth - 1)}|${pattern(depth - 1)})`;
        case 6:
          return `(?:${pattern(depth - 1)}|c)${['*', '+', '?', '{2}', '{1,3}', '{2,}'][random.below(6)]}`;
        case 7:
        case 8:
          return pattern(depth - 1) + pattern(depth - 1);
        default:
          return 'abc'[random.below(3)]!;
      }
    };
    for (let round = 0; round < 400; round++) {
      const source = pattern(4);
      const automata = new Automata(new Budget('regex'));
      const [search, whole] = (['search', 'whole'] as const).map((how) => patternAutomaton(source, how, automata));
      const [searching, spanning] = [new RegExp(source, 'u'), new RegExp(`^(?:${source})$`, 'u')];
      let [isFound, isSpanned] = [false, false];
      for (let at = 0; at < 364; at++) {
        // All texts of up to five letters.
        let text = '';
        for (let rest = at; rest > 0; rest = Math.floor((rest - 1) / 3)) text += 'abc'[(rest - 1) % 3];
        expect(search!.has(text), `${source} in ${text}`).toBe(searching.test(text));
        expect(whole!.has(text), `${source} over ${text}`).toBe(spanning.test(text));
        isFound ||= searching.test(text);
        isSpanned ||= spanning.test(text);
      }
      if (isFound) expect(automata.isEmpty(search!)).toBe(false);
      if (isSpanned) expect(automata.isEmpty(whole!)).toBe(false);
    }
  });
});
