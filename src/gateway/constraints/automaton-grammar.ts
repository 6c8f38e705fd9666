import type { Automaton } from './automaton.js';
import type { CodePointSet } from './code-points.js';
import { choice, type Expression, type Grammar, IMPOSSIBLE, NOTHING, repeat, sequence } from './grammar.js';

/** Form of an automaton's character in the text: itself, or as JSON writes it inside of a string. */
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

/** Characters that lead from one state to another. */
interface Edge {
  readonly to: number;
  readonly set: CodePointSet;
}

class Translation {
  readonly #edges: readonly Edge[][];
  readonly #uses: number[];

  constructor(
    readonly automaton: Automaton,
    readonly writing: Writing,
    readonly key: string,
    readonly grammar: Grammar,
  ) {
    const useful = usefulStates(automaton);
    this.#uses = Array.from(automaton.accepting, () => 0);
    this.#edges = Array.from(automaton.accepting, (_, state) => edgesOf(automaton, state, useful));
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
      if (!isSameSet(edge.set, set) || (state !== first && this.#uses[state]! > 1)) break;
      state = edge.to;
      length++;
    }
    if (length < 2) return undefined;
    if (isAccepting === 0) return { read: repeat(this.writing(set), length, length), end: state };
    return isLast(state) ? { read: repeat(this.writing(set), 0, length), end: undefined } : undefined;
  }
}

/** The edges of a state to useful ones, one for each of these. */
function edgesOf({ alphabet, next }: Automaton, state: number, useful: Uint8Array): Edge[] {
  const { starts, classOf, classes } = alphabet;
  const sets = new Map<number, number[]>();
  for (let interval = 0; interval < starts.length; interval++) {
    const to = next[state * classes + classOf[interval]!]!;
    if (classOf[interval]! < 0 || useful[to] === 0) continue;
    const [first, last] = [starts[interval]!, (starts[interval + 1] ?? 0x110000) - 1];
    const set = sets.get(to);
    if (set === undefined) sets.set(to, [first, last]);
    else if (set.at(-1) === first - 1) set[set.length - 1] = last;
    else set.push(first, last);
  }
  return Array.from(sets, ([to, set]) => ({ to, set }));
}

const isSameSet = (a: CodePointSet, b: CodePointSet): boolean =>
  a.length === b.length && a.every((bound, index) => bound === b[index]);

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
