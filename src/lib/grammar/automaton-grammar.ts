import type { Automaton } from './automata.js';
import type { CodePointSet } from './code-points.js';
import {
  characters,
  choiceOf,
  type Expression,
  type Grammar,
  IMPOSSIBLE,
  NOTHING,
  repeat,
  sequence,
} from './grammar.js';

/** Form of an automaton's characters in the text. */
export interface Writing {
  /** Distinguishes the form from others of the grammar. */
  readonly key: string;
  readonly of: (set: CodePointSet) => Expression;
}

/** Characters as they are. */
export const AS_THEY_ARE: Writing = { key: 'raw', of: characters };

/** Deeper than this, expressions lie in rules of their own: they are read by recursion. */
const NESTING = 20;

/**
 * The language of an automaton as an expression: a rule for each state that several lead to, all others inside of those. States that
 * automata of the grammar have in common are the same rules.
 *
 * @throws GrammarError `CONSTRAINT_UNSUPPORTED` beyond the limit of states
 */
export function automatonExpression(automaton: Automaton, writing: Writing, grammar: Grammar): Expression {
  return new Translation(writing, grammar).from(automaton, NESTING + 1);
}

class Translation {
  constructor(
    readonly writing: Writing,
    readonly grammar: Grammar,
  ) {}

  /** All that can be read from a state on. */
  from(state: Automaton, depth: number): Expression {
    const { automata } = this.grammar;
    const steps = automata.steps(state);
    if (automata.uses(state) > 1 || depth > NESTING) {
      return this.grammar.shared(`${this.writing.key} ${state.id}`, 'text', () => this.#content(state, steps, 0));
    }
    return this.#content(state, steps, depth);
  }

  #content(state: Automaton, steps: ReadonlyMap<Automaton, CodePointSet>, depth: number): Expression {
    const run = this.#run(state);
    if (run !== undefined) return sequence(run.read, run.end === undefined ? NOTHING : this.from(run.end, depth + 1));
    const onward: Expression[] = [];
    for (const [to, set] of steps) {
      if (to !== state) onward.push(sequence(this.writing.of(set), this.from(to, depth + 1)));
    }
    if (state.accepts) onward.push(NOTHING);
    const rest = choiceOf(onward);
    const loop = steps.get(state);
    if (rest === IMPOSSIBLE || loop === undefined) return rest;
    return sequence(repeat(this.writing.of(loop), 0, Number.POSITIVE_INFINITY), rest);
  }

  /** A chain of states that read one and the same set is a repetition. */
  #run(first: Automaton): { read: Expression; end: Automaton | undefined } | undefined {
    const { automata } = this.grammar;
    const single = (state: Automaton) => {
      const steps = automata.steps(state);
      if (steps.size !== 1) return undefined;
      const [step] = steps;
      return step;
    };
    const set = single(first)?.[1];
    if (set === undefined) return undefined;
    let [state, length] = [first, 0];
    for (;;) {
      const step = single(state);
      if (step === undefined || step[0] === state || state.accepts !== first.accepts) break;
      if (state === first && length > 0) break;
      if (!isSameSet(step[1], set) || (state !== first && automata.uses(state) > 1)) break;
      state = step[0];
      length++;
    }
    if (length < 2) return undefined;
    const read = this.writing.of(set);
    if (!first.accepts) return { read: repeat(read, length, length), end: state };
    return automata.steps(state).size === 0 ? { read: repeat(read, 0, length), end: undefined } : undefined;
  }
}

const isSameSet = (a: CodePointSet, b: CodePointSet): boolean =>
  a.length === b.length && a.every((bound, index) => bound === b[index]);
