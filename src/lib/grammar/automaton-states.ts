import type { CodePointSet } from './code-points.js';
import type { Follower, Term } from './regex-terms.js';

/**
 * A deterministic automaton over Unicode scalar values, as the state where it begins. Equal states are one object, and what follows
 * them is built when a text, a search or a grammar comes to them first (Brzozowski, 1964; Owens, Reppy and Turon, 2009).
 */
export interface Automaton {
  readonly id: number;
  /** True if a text may end here. */
  readonly accepts: boolean;
  has(text: string): boolean;
}

/** Targets of all characters: the first of each interval, ascending from 0, numbered as {@link numberOf} does. */
export interface Edges {
  readonly starts: readonly number[];
  readonly to: readonly Node[];
}

const [SURROGATES, BEHIND_SURROGATES] = [0xd800, 0xe000];
/** Scalar values without the gap of the surrogates between them. */
export const numberOf = (codePoint: number) =>
  codePoint < SURROGATES ? codePoint : codePoint - BEHIND_SURROGATES + SURROGATES;
const codePointOf = (number: number) => (number < SURROGATES ? number : number - SURROGATES + BEHIND_SURROGATES);
const LAST = numberOf(0x10ffff);

/** A state. */
export class Node implements Automaton {
  /** The node of the texts that it does not accept. */
  complement: Node | undefined;
  /** False if no text is accepted; undefined: not known yet. */
  isAlive: boolean | undefined;
  /** True once it is known of all that it leads to, and counted in their `uses`. */
  isSettled = false;
  /** Other settled states that lead to it. */
  uses = 0;
  /** By the state that they lead to, characters behind which a text may still end. */
  steps: ReadonlyMap<Node, CodePointSet> | undefined;
  #edges: Edges | undefined;

  constructor(
    readonly id: number,
    readonly accepts: boolean,
    /** Terms of which one must match; undefined where it is no regular expression, or one that the start of a text matters to. */
    readonly terms: readonly Term[] | undefined,
    readonly build: () => Edges,
  ) {}

  get edges(): Edges {
    this.#edges ??= this.build();
    return this.#edges;
  }

  has(text: string): boolean {
    let node: Node = this;
    for (const character of text) {
      const codePoint = character.codePointAt(0)!;
      if (codePoint >= SURROGATES && codePoint < BEHIND_SURROGATES) return false;
      const { starts, to } = node.edges;
      node = to[intervalOf(starts, numberOf(codePoint))]!;
    }
    return node.accepts;
  }
}

/** Edges as they are added, by ascending numbers; the last one of a number stays. */
export class EdgeList implements Edges {
  readonly starts: number[] = [];
  readonly to: Node[] = [];

  add(start: number, to: Node): void {
    if (this.starts.at(-1) === start) {
      this.starts.pop();
      this.to.pop();
    }
    if (this.to.at(-1) === to) return;
    this.starts.push(start);
    this.to.push(to);
  }
}

/** Index of the interval that a number is in. */
export function intervalOf(starts: readonly number[], number: number): number {
  let low = 0;
  let high = starts.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (starts[middle]! <= number) low = middle;
    else high = middle - 1;
  }
  return low;
}

const FEW_FOLLOWERS = 8;

/** Numbers at which sets begin or end. */
export function bordersOf(followers: readonly Follower[]): number[] {
  const borders = [0];
  // Alternatives often begin with one and the same set.
  const sets = followers.length > FEW_FOLLOWERS ? new Set(followers.map(({ set }) => set)) : undefined;
  const add = (set: CodePointSet): void => {
    for (let i = 0; i < set.length; i += 2) borders.push(numberOf(set[i]!), numberOf(set[i + 1]!) + 1);
  };
  if (sets !== undefined) sets.forEach(add);
  else for (const { set } of followers) add(set);
  borders.sort((a, b) => a - b);
  return borders.filter((border, i) => border <= LAST && border !== borders[i - 1]);
}

/** Edges to what `both` makes of the states that two lists lead to. */
export function merged(a: Edges, b: Edges, both: (x: Node, y: Node) => Node): Edges {
  const edges = new EdgeList();
  for (let i = 0, j = 0, start = 0; start <= LAST; ) {
    edges.add(start, both(a.to[i]!, b.to[j]!));
    const nextA = a.starts[i + 1] ?? LAST + 1;
    const nextB = b.starts[j + 1] ?? LAST + 1;
    start = Math.min(nextA, nextB);
    if (nextA === start) i++;
    if (nextB === start) j++;
  }
  return edges;
}

/** Characters by the states that they lead to, where a text may end behind these. */
export function stepsOf({ edges }: Node): ReadonlyMap<Node, CodePointSet> {
  const found = new Map<Node, number[]>();
  edges.to.forEach((to, interval) => {
    if (to.isAlive !== true) return;
    const first = edges.starts[interval]!;
    const last = (edges.starts[interval + 1] ?? LAST + 1) - 1;
    let set = found.get(to);
    if (set === undefined) {
      set = [];
      found.set(to, set);
    }
    if (first < SURROGATES && last >= SURROGATES) set.push(first, SURROGATES - 1, BEHIND_SURROGATES, codePointOf(last));
    else set.push(codePointOf(first), codePointOf(last));
  });
  return found;
}
