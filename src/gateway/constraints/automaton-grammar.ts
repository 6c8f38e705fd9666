import { type Automaton, setsOfClasses } from './automaton.js';
import { type CodePointSet, unionOf } from './code-points.js';
import { choice, type Expression, type Grammar, IMPOSSIBLE, NOTHING, repeat, sequence } from './grammar.js';

/** How a character of the automaton is written in the text: as itself, or as JSON writes it inside of a string. */
export type Writing = (set: CodePointSet) => Expression;

/** Deeper than this, expressions lie in rules of their own: they are read by recursion. */
const NESTING = 20;

/**
 * The language of an automaton as an expression: a rule for each state that several lead to, all others inside of those.
 *
 * @param key what makes the automaton another than others of the grammar
 */
export function automatonExpression(automaton: Automaton, writing: Writing, key: string, grammar: Grammar): Expression {
  return new Translation(automaton, writing, key, grammar).from(0, 0);
}

class Translation {
  readonly #edges: { readonly to: number; readonly set: CodePointSet }[][];
  readonly #uses: number[];

  constructor(
    readonly automaton: Automaton,
    readonly writing: Writing,
    readonly key: string,
    readonly grammar: Grammar,
  ) {
    const { alphabet, next, accepting } = automaton;
    const sets = setsOfClasses(alphabet);
    const useful = usefulStates(automaton);
    this.#uses = Array.from(accepting, () => 0);
    this.#edges = Array.from(accepting, (_, state) => {
      const targets = new Map<number, CodePointSet[]>();
      for (let of = 0; of < alphabet.classes; of++) {
        const to = next[state * alphabet.classes + of]!;
        if (useful[to] === 1) targets.set(to, [...(targets.get(to) ?? []), sets[of]!]);
      }
      return [...targets].map(([to, parts]) => ({ to, set: unionOf(parts) }));
    });
    this.#edges.forEach((edges, state) => {
      for (const { to } of edges) if (to !== state) this.#uses[to]!++;
    });
  }

  /** All that can be read from a state on. */
  from(state: number, depth: number): Expression {
    if (this.#uses[state]! > 1 || depth > NESTING || (state === 0 && this.#uses[0]! > 0)) {
      return this.grammar.shared(`${this.key}:${state}`, 'text', () => this.#content(state, 0));
    }
    return this.#content(state, depth);
  }

  #content(state: number, depth: number): Expression {
    const run = this.#run(state);
    if (run !== undefined) return sequence(run.read, run.end === undefined ? NOTHING : this.from(run.end, depth + 1));
    const loop = this.#edges[state]!.find(({ to }) => to === state);
    const onward = this.#edges[state]!.filter(({ to }) => to !== state).map(({ to, set }) =>
      sequence(this.writing(set), this.from(to, depth + 1)),
    );
    if (this.automaton.accepting[state] === 1) onward.push(NOTHING);
    const rest = choice(...onward);
    if (rest === IMPOSSIBLE || loop === undefined) return rest;
    return sequence(repeat(this.writing(loop.set), 0, Number.POSITIVE_INFINITY), rest);
  }

  /** A chain of states that read one and the same set is a repetition. */
  #run(first: number): { read: Expression; end: number | undefined } | undefined {
    const isLast = (state: number) => this.#edges[state]!.length === 0;
    const single = (state: number) => (this.#edges[state]!.length === 1 ? this.#edges[state]![0] : undefined);
    const set = single(first)?.set;
    if (set === undefined) return undefined;
    const isAccepting = this.automaton.accepting[first];
    let [state, length] = [first, 0];
    for (;;) {
      const edge = single(state);
      if (edge === undefined || edge.to === state || this.automaton.accepting[state] !== isAccepting) break;
      if (edge.set.join() !== set.join() || (state !== first && this.#uses[state]! > 1)) break;
      state = edge.to;
      length++;
    }
    if (length < 2) return undefined;
    if (isAccepting === 0) return { read: repeat(this.writing(set), length, length), end: state };
    return isLast(state) ? { read: repeat(this.writing(set), 0, length), end: undefined } : undefined;
  }
}

/** 1 for the states from which a text may still end. */
function usefulStates({ alphabet, next, accepting }: Automaton): Uint8Array {
  const from: number[][] = Array.from(accepting, () => []);
  next.forEach((to, index) => {
    from[to]!.push(Math.floor(index / alphabet.classes));
  });
  const useful = Uint8Array.from(accepting);
  const open = [...accepting.keys()].filter((state) => accepting[state] === 1);
  for (let state = open.pop(); state !== undefined; state = open.pop()) {
    for (const before of from[state]!) {
      if (useful[before] === 0) {
        useful[before] = 1;
        open.push(before);
      }
    }
  }
  return useful;
}
