import {
  type Automaton,
  bordersOf,
  EdgeList,
  type Edges,
  intervalOf,
  merged,
  Node,
  numberOf,
  stepsOf,
} from './automaton-states.js';
import type { Budget } from './budget.js';
import type { CodePointSet } from './code-points.js';
import { CONSTRAINT_LIMITS } from './limits.js';
import { type Follower, RegexTerms, type Term } from './regex-terms.js';

export type { Automaton } from './automaton-states.js';

/** Steps of an automaton that is no regular expression. Its letters have no ranges; all other characters lead nowhere. */
export interface Machine<State> {
  readonly letters: string;
  readonly key: (state: State) => string;
  /** The state behind a letter; undefined: no text continues so. */
  readonly next: (state: State, letter: string) => State | undefined;
  readonly accepts: (state: State) => boolean;
}

/** Work that a state takes, and more than all that the limit of work allows. */
const STATE_WORK = 30;
const MOST_STATES = 2 ** 24;

/** The automata of one constraint. */
export class Automata {
  readonly terms: RegexTerms;
  /** By the numbers of their terms. */
  readonly #regexes = new Map<string, Node>();
  /** By the numbers of both, as one. */
  readonly #pairs = new Map<number, Node>();
  readonly #nothing: Node;
  readonly #everything: Node;
  #made = 0;

  constructor(readonly work: Budget) {
    this.terms = new RegexTerms(work);
    this.#nothing = this.#regex([], false);
    this.#everything = this.#regex([this.terms.anything], false);
    this.#nothing.complement = this.#everything;
    this.#everything.complement = this.#nothing;
    this.#nothing.isAlive = false;
  }

  /** Any text. */
  get everything(): Automaton {
    return this.#everything;
  }

  /** The texts that a term matches from their start to their end. */
  regex(term: Term): Automaton {
    return this.#regex(this.terms.alternatives([term]), term.hasStart);
  }

  /** Exactly these texts. */
  texts(texts: readonly string[]): Automaton {
    return this.regex(this.terms.choice(texts.map((text) => this.terms.text(text))));
  }

  /** The texts of so many characters. */
  lengths(min: number, max: number): Automaton {
    const { terms } = this;
    return this.regex(terms.repeat(terms.anyCharacter, min, max));
  }

  /** The texts that steps from a state on lead to an accepting one by. */
  machine<State>(start: State, machine: Machine<State>): Automaton {
    const letters = [...machine.letters].sort();
    const known = new Map<string, Node>();
    const stateOf = (state: State): Node => {
      const key = machine.key(state);
      const node = known.get(key) ?? this.#node(machine.accepts(state), () => edgesOf(state));
      known.set(key, node);
      return node;
    };
    const edgesOf = (state: State): Edges => {
      const edges = new EdgeList();
      edges.add(0, this.#nothing);
      for (const letter of letters) {
        const number = numberOf(letter.codePointAt(0)!);
        const next = machine.next(state, letter);
        edges.add(number, next === undefined ? this.#nothing : stateOf(next));
        edges.add(number + 1, this.#nothing);
      }
      return edges;
    };
    return stateOf(start);
  }

  /** The texts that it does not accept. */
  not(automaton: Automaton): Automaton {
    return this.#not(automaton as Node);
  }

  #not(node: Node): Node {
    if (node.complement === undefined) {
      const map = ({ starts, to }: Edges): Edges => ({ starts, to: to.map((each) => this.#not(each)) });
      const made = this.#node(!node.accepts, () => map(node.edges));
      made.complement = node;
      node.complement = made;
    }
    return node.complement;
  }

  /** The texts that both accept. */
  both(a: Automaton, b: Automaton): Automaton {
    return this.#bothOf(a as Node, b as Node);
  }

  readonly #bothOf = (a: Node, b: Node): Node => (a.id < b.id ? this.#both(a, b) : this.#both(b, a));

  /** @param a the one with the smaller number */
  #both(a: Node, b: Node): Node {
    if (a === b || b === this.#everything || a === this.#nothing) return a;
    if (a === this.#everything || b === this.#nothing) return b;
    if (a.complement === b) return this.#nothing;
    const key = a.id * MOST_STATES + b.id;
    let made = this.#pairs.get(key);
    if (made === undefined) {
      made = this.#node(a.accepts && b.accepts, () => merged(a.edges, b.edges, this.#bothOf));
      this.#pairs.set(key, made);
    }
    return made;
  }

  /** The texts that at least one accepts. */
  either(first: Automaton, second: Automaton): Automaton {
    const [a, b] = [first, second] as [Node, Node];
    if (a.terms !== undefined && b.terms !== undefined) {
      return this.#regex(this.terms.alternatives([...a.terms, ...b.terms]), false);
    }
    return this.not(this.both(this.not(a), this.not(b)));
  }

  /** @throws GrammarError `CONSTRAINT_UNSUPPORTED` where too many states are searched for a text */
  isEmpty(automaton: Automaton): boolean {
    const root = automaton as Node;
    if (root.isAlive !== undefined) return !root.isAlive;
    // Depth first: most automata accept a text that is near.
    const seen = new Set([root]);
    const path: { readonly node: Node; readonly to: Edges['to']; at: number }[] = [];
    const isAlive = (node: Node): boolean => {
      if (node.accepts || node.isAlive === true) return true;
      path.push({ node, to: node.edges.to, at: 0 });
      return false;
    };
    let isFound = isAlive(root);
    while (!isFound && path.length > 0) {
      const top = path.at(-1)!;
      const next = top.to[top.at++];
      if (top.at > top.to.length) path.pop();
      if (next === undefined || next.isAlive === false || seen.has(next)) continue;
      seen.add(next);
      this.#refuseStates(seen.size);
      isFound = isAlive(next);
    }
    for (const { node } of path) node.isAlive = true;
    if (!isFound) for (const node of seen) node.isAlive = false;
    root.isAlive = isFound;
    return !isFound;
  }

  /**
   * The characters that lead from a state to others from which a text may end, by these states.
   *
   * @throws GrammarError `CONSTRAINT_UNSUPPORTED` beyond the limit of states
   */
  steps(automaton: Automaton): ReadonlyMap<Automaton, CodePointSet> {
    const node = automaton as Node;
    this.#settle(node);
    node.steps ??= stepsOf(node);
    return node.steps;
  }

  /** Number of other states of {@link steps} so far that lead to a state. */
  uses(automaton: Automaton): number {
    return (automaton as Node).uses;
  }

  /** Explores what can be reached from a state. */
  #settle(root: Node): void {
    if (root.isSettled) return;
    const found = new Set([root]);
    const before = new Map<Node, Node[]>();
    const open: Node[] = [];
    for (const node of found) {
      if (node.accepts || (node.isSettled && node.isAlive)) open.push(node);
      if (node.isSettled || node.isAlive === false) continue;
      for (const to of new Set(node.edges.to)) {
        found.add(to);
        const sources = before.get(to);
        if (sources === undefined) before.set(to, [node]);
        else sources.push(node);
      }
      this.#refuseStates(found.size);
    }
    const alive = new Set(open);
    for (const node of alive) for (const source of before.get(node) ?? []) alive.add(source);
    for (const node of found) {
      node.isAlive = alive.has(node);
      node.isSettled = true;
    }
    for (const [to, sources] of before) {
      for (const source of sources) if (to.isAlive && source !== to) to.uses++;
    }
  }

  #refuseStates(count: number): void {
    if (count <= CONSTRAINT_LIMITS.states) return;
    this.work.exceed(
      `it needs an automaton of more than ${CONSTRAINT_LIMITS.states} states; count less or ask for less`,
    );
  }

  #node(accepts: boolean, build: () => Edges, terms?: readonly Term[]): Node {
    this.work.spend(STATE_WORK);
    return new Node(this.#made++, accepts, terms, build);
  }

  /** @param alternatives by id, each once */
  #regex(alternatives: readonly Term[], isStart: boolean): Node {
    const key = `${isStart ? '^' : ''}${idsOf(alternatives)}`;
    const known = this.#regexes.get(key);
    if (known !== undefined) return known;
    const accepts = alternatives.some((term) => this.terms.mayEnd(term, isStart));
    const build = () => this.#regexEdges(alternatives, isStart);
    const made = this.#node(accepts, build, isStart ? undefined : alternatives);
    this.#regexes.set(key, made);
    return made;
  }

  #regexEdges(alternatives: readonly Term[], isStart: boolean): Edges {
    const followers: Follower[] = [];
    for (const term of alternatives) this.terms.follow(term, this.terms.empty, isStart, followers);
    const starts = bordersOf(followers);
    const behind: Term[][] = starts.map(() => []);
    const hashes = new Int32Array(starts.length);
    for (const { set, rest } of followers) {
      for (let i = 0; i < set.length; i += 2) {
        const last = numberOf(set[i + 1]!);
        let interval = intervalOf(starts, numberOf(set[i]!));
        for (; interval < starts.length && starts[interval]! <= last; interval++) {
          behind[interval]!.push(rest);
          hashes[interval] = Math.imul(hashes[interval]!, 31) + rest.id;
        }
      }
    }
    this.work.spend(starts.length);
    // Most intervals have the terms of another one; by a hash of their numbers.
    const known = new Map<number, { readonly terms: readonly Term[]; readonly to: Node }[]>();
    const edges = new EdgeList();
    behind.forEach((terms, interval) => {
      const alike = known.get(hashes[interval]!) ?? [];
      let found = alike.find((other) => isSame(other.terms, terms));
      if (found === undefined) {
        found = { terms, to: this.#regex(this.terms.alternatives(terms), false) };
        alike.push(found);
        known.set(hashes[interval]!, alike);
      }
      edges.add(starts[interval]!, found.to);
    });
    return edges;
  }
}

const isSame = (a: readonly Term[], b: readonly Term[]): boolean =>
  a.length === b.length && a.every((term, i) => term === b[i]);

const idsOf = (terms: readonly Term[]): string =>
  terms.length === 1 ? String(terms[0]!.id) : terms.map(({ id }) => id).join();
