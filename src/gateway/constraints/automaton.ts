import type { Budget } from './budget.js';
import { type CodePointSet, pairs } from './code-points.js';
import { CONSTRAINT_LIMITS } from './limits.js';

/** The last scalar value. */
const LAST = 0x10ffff;

/** The scalar values cut into intervals, each of a class: what no automaton tells apart has one class. */
export interface Alphabet {
  /** First value of each interval, ascending from 0. */
  readonly starts: readonly number[];
  /** Class of each interval; -1 is the surrogates, which are no characters. */
  readonly classOf: readonly number[];
  readonly classes: number;
}

/** A deterministic automaton over Unicode scalar values, complete; state 0 is where it begins. */
export interface Automaton {
  readonly alphabet: Alphabet;
  /** The state after `state * alphabet.classes + class`. */
  readonly next: Int32Array;
  /** 1 where a text may end, by state. */
  readonly accepting: Uint8Array;
}

/** The coarsest alphabet that tells the members of each set from the others. */
export function alphabetOf(sets: readonly CodePointSet[]): Alphabet {
  const surrogates: CodePointSet = [0xd800, 0xdfff];
  const starts = [...new Set([0, ...[surrogates, ...sets].flatMap(pairs).flatMap(([a, b]) => [a, b + 1])])]
    .filter((start) => start <= LAST)
    .sort((a, b) => a - b);
  const signatures: string[] = starts.map(() => '');
  sets.forEach((set, index) => {
    let interval = 0;
    for (const [first, last] of pairs(set)) {
      while (starts[interval]! < first) interval++;
      for (; interval < starts.length && starts[interval]! <= last; interval++) signatures[interval] += `${index},`;
    }
  });
  const classes = new Map<string, number>();
  const classOf = starts.map((start, interval) => {
    if (start === 0xd800) return -1;
    const signature = signatures[interval]!;
    if (!classes.has(signature)) classes.set(signature, classes.size);
    return classes.get(signature)!;
  });
  return { starts, classOf, classes: classes.size };
}

/** The class of a scalar value. */
export function classAt({ starts, classOf }: Alphabet, codePoint: number): number {
  let [low, high] = [0, starts.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (starts[middle]! <= codePoint) low = middle;
    else high = middle - 1;
  }
  return classOf[low]!;
}

export function accepts({ alphabet, next, accepting }: Automaton, text: string): boolean {
  let state = 0;
  for (const character of text) {
    const of = classAt(alphabet, character.codePointAt(0)!);
    if (of < 0) return false;
    state = next[state * alphabet.classes + of]!;
  }
  return accepting[state] === 1;
}

/** The texts that it does not accept. */
export function complementOf(automaton: Automaton): Automaton {
  return { ...automaton, accepting: automaton.accepting.map((is) => 1 - is) };
}

/**
 * Explores a deterministic automaton from its start: states are whatever `key` tells apart.
 *
 * @throws RocmForgeError `CONSTRAINT_UNSUPPORTED` beyond the limit of states
 */
export function explore<State>(
  alphabet: Alphabet,
  start: State,
  steps: {
    readonly key: (state: State) => string | number;
    readonly next: (state: State, of: number) => State;
    readonly accepts: (state: State) => boolean;
  },
  work: Budget,
): Automaton {
  const ids = new Map([[steps.key(start), 0]]);
  const states = [start];
  const next: number[] = [];
  for (let index = 0; index < states.length; index++) {
    for (let of = 0; of < alphabet.classes; of++) {
      work.spend(1);
      const target = steps.next(states[index]!, of);
      const key = steps.key(target);
      let id = ids.get(key);
      if (id === undefined) {
        id = states.push(target) - 1;
        ids.set(key, id);
        if (id >= CONSTRAINT_LIMITS.states) {
          work.exceed(
            `it needs an automaton of more than ${CONSTRAINT_LIMITS.states} states; count less or ask for less`,
          );
        }
      }
      next.push(id);
    }
  }
  const accepting = Uint8Array.from(states, (state) => Number(steps.accepts(state)));
  return { alphabet, next: Int32Array.from(next), accepting };
}

/** The texts that both accept (`both`), or at least one (`either`). */
export function combine(a: Automaton, b: Automaton, how: 'both' | 'either', work: Budget): Automaton {
  const starts: number[] = [];
  const classOf: number[] = [];
  const ofA: number[] = [];
  const ofB: number[] = [];
  const classes = new Map<number, number>();
  for (let [i, j, start] = [0, 0, 0]; start <= LAST; ) {
    const [x, y] = [a.alphabet.classOf[i]!, b.alphabet.classOf[j]!];
    const pair = x * b.alphabet.classes + y;
    if (x >= 0 && !classes.has(pair)) {
      classes.set(pair, classes.size);
      ofA.push(x);
      ofB.push(y);
    }
    starts.push(start);
    classOf.push(x < 0 ? -1 : classes.get(pair)!);
    const [nextA, nextB] = [a.alphabet.starts[i + 1] ?? LAST + 1, b.alphabet.starts[j + 1] ?? LAST + 1];
    start = Math.min(nextA, nextB);
    if (nextA === start) i++;
    if (nextB === start) j++;
  }
  const alphabet = { starts, classOf, classes: classes.size };
  // A state is a pair of theirs, as one number.
  const statesOfB = b.accepting.length;
  const product = explore<number>(
    alphabet,
    0,
    {
      key: (pair) => pair,
      next: (pair, of) => {
        const [x, y] = [Math.floor(pair / statesOfB), pair % statesOfB];
        return a.next[x * a.alphabet.classes + ofA[of]!]! * statesOfB + b.next[y * b.alphabet.classes + ofB[of]!]!;
      },
      accepts: (pair) => {
        const [isX, isY] = [a.accepting[Math.floor(pair / statesOfB)] === 1, b.accepting[pair % statesOfB] === 1];
        return how === 'both' ? isX && isY : isX || isY;
      },
    },
    work,
  );
  return minimized(product, work);
}

export const bothOf = (a: Automaton, b: Automaton, work: Budget) => combine(a, b, 'both', work);
export const eitherOf = (a: Automaton, b: Automaton, work: Budget) => combine(a, b, 'either', work);

export function isEmpty({ accepting }: Automaton): boolean {
  // Every state that `explore` found can be reached.
  return !accepting.includes(1);
}

/** The same language with the fewest states: E. F. Moore's refinement, given up where it would cost more than it is worth. */
export function minimized(automaton: Automaton, work: Budget): Automaton {
  const { alphabet, next, accepting } = automaton;
  const states = accepting.length;
  let block: Int32Array = Int32Array.from(accepting);
  let count = new Set(block).size;
  const row = 1 + alphabet.classes;
  for (let cost = 0; ; cost += states * row) {
    if (cost > 3_000_000) return automaton;
    work.spend(states * row);
    const [refined, blocks] = refinedBlocks(block, next, alphabet.classes);
    block = refined;
    if (blocks === count) break;
    count = blocks;
  }
  if (count === states) return automaton;
  // Blocks are numbered as they are met, from state 0 on, so the start stays 0.
  const representative: number[] = [];
  block.forEach((id, state) => {
    representative[id] ??= state;
  });
  const merged = new Int32Array(count * alphabet.classes);
  representative.forEach((state, id) => {
    for (let of = 0; of < alphabet.classes; of++) {
      merged[id * alphabet.classes + of] = block[next[state * alphabet.classes + of]!]!;
    }
  });
  return { alphabet, next: merged, accepting: Uint8Array.from(representative, (state) => accepting[state]!) };
}

/** Blocks of states that are of one block and lead to the same ones, numbered as they are met, and their number. */
function refinedBlocks(block: Int32Array, next: Int32Array, classes: number): [blocks: Int32Array, count: number] {
  const states = block.length;
  const isSame = (a: number, b: number): boolean => {
    if (block[a] !== block[b]) return false;
    for (let of = 0; of < classes; of++) {
      if (block[next[a * classes + of]!] !== block[next[b * classes + of]!]) return false;
    }
    return true;
  };
  // A hash table of the first state of each block, at most half full: 0 is a free place.
  const mask = 2 ** Math.ceil(Math.log2(2 * states + 1)) - 1;
  const table = new Int32Array(mask + 1);
  const refined = new Int32Array(states);
  let count = 0;
  for (let state = 0; state < states; state++) {
    let hash = block[state]!;
    for (let of = 0; of < classes; of++) hash = Math.imul(hash ^ block[next[state * classes + of]!]!, 0x9e3779b1) + of;
    let place = (hash ^ (hash >>> 15)) & mask;
    while (table[place] !== 0 && !isSame(table[place]! - 1, state)) place = (place + 1) & mask;
    if (table[place] === 0) {
      table[place] = state + 1;
      refined[state] = count++;
    } else {
      refined[state] = refined[table[place]! - 1]!;
    }
  }
  return [refined, count];
}

/** The texts of so many characters. */
export function lengthAutomaton(min: number, max: number, work: Budget): Automaton {
  const last = Number.isFinite(max) ? max + 1 : min;
  return explore(
    alphabetOf([]),
    0,
    {
      key: (length) => length,
      next: (length) => Math.min(length + 1, last),
      accepts: (length) => length >= min && length <= max,
    },
    work,
  );
}

/** Exactly these texts: a tree of their characters, in which equal branches are one. */
export function textsAutomaton(texts: readonly string[], work: Budget): Automaton {
  const characters = [...new Set(texts.flatMap((text) => [...text]))];
  const alphabet = alphabetOf(characters.map((character) => [character.codePointAt(0)!, character.codePointAt(0)!]));
  const classes = new Map(characters.map((character) => [character, classAt(alphabet, character.codePointAt(0)!)]));
  type Branch = { readonly children: Map<number, Branch>; id: number; isEnd: boolean };
  const branch = (): Branch => ({ children: new Map(), id: -1, isEnd: false });
  const [root, none] = [branch(), branch()];
  // Each branch before its children.
  const branches = [root, none];
  for (const text of texts) {
    let at = root;
    for (const character of text) {
      const of = classes.get(character)!;
      let child = at.children.get(of);
      if (child === undefined) {
        child = branch();
        at.children.set(of, child);
        branches.push(child);
        work.spend(1);
      }
      at = child;
    }
    at.isEnd = true;
  }
  const known = new Map<string, number>();
  for (const at of branches.reverse()) {
    const children = [...at.children].map(([of, { id }]) => `${of}:${id}`).sort();
    const key = `${at.isEnd} ${children.join()}`;
    at.id = known.get(key) ?? known.size;
    known.set(key, at.id);
  }
  const steps = {
    key: ({ id }: Branch) => id,
    next: ({ children }: Branch, of: number) => children.get(of) ?? none,
    accepts: ({ isEnd }: Branch) => isEnd,
  };
  return explore(alphabet, root, steps, work);
}
