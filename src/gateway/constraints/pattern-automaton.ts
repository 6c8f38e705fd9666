import { type Alphabet, type Automaton, alphabetOf, bothOf, complementOf, explore, minimized } from './automaton.js';
import type { Budget } from './budget.js';
import { type CodePointSet, EVERYTHING } from './code-points.js';
import { type Pattern, PatternError, parsePattern } from './regex-syntax.js';

/** `search`: the pattern may begin and end anywhere, as JSON Schema's. `whole`: it spans the text. */
export type Matching = 'search' | 'whole';

const ANYTHING: Pattern = {
  kind: 'repeat',
  what: { kind: 'set', set: EVERYTHING },
  min: 0,
  max: Number.POSITIVE_INFINITY,
};

/**
 * The texts that a regular expression matches.
 *
 * @throws PatternError where it cannot be read or is not regular
 * @throws RocmForgeError `CONSTRAINT_UNSUPPORTED` where its automaton is too large
 */
export function patternAutomaton(source: string, matching: Matching, work: Budget): Automaton {
  const parts = topLevel(parsePattern(source));
  const leading = parts.findIndex(({ kind }) => kind !== 'start' && kind !== 'lookahead');
  const head = parts.slice(0, leading < 0 ? parts.length : leading);
  const ahead = head.filter((part) => part.kind === 'lookahead');
  if (ahead.length > 0 && matching === 'search' && head[0]?.kind !== 'start') {
    throw new PatternError(0, 'look-ahead', 'look-ahead is supported only where the pattern begins with ^');
  }
  const rest = parts.filter((part) => part.kind !== 'lookahead' || !head.includes(part));
  let automaton = ofPattern(inContext({ kind: 'sequence', parts: rest }, matching), work);
  for (const { what, negative } of ahead) {
    const asked = ofPattern({ kind: 'sequence', parts: [what, ANYTHING] }, work);
    automaton = bothOf(automaton, negative ? complementOf(asked) : asked, work);
  }
  return automaton;
}

function topLevel(pattern: Pattern): readonly Pattern[] {
  return pattern.kind === 'sequence' ? pattern.parts : [pattern];
}

function inContext(pattern: Pattern, matching: Matching): Pattern {
  return matching === 'whole' ? pattern : { kind: 'sequence', parts: [ANYTHING, pattern, ANYTHING] };
}

/** The texts of a pattern that spans them, by Thompson's construction and the powerset of its states. */
export function ofPattern(pattern: Pattern, work: Budget): Automaton {
  const machine = new Machine(work);
  const final = machine.add(pattern, machine.state());
  const sets = machine.sets;
  work.spend(sets.length * sets.reduce((sum, set) => sum + set.length, 0));
  const alphabet = alphabetOf(sets);
  const classesOf = sets.map((set) => classesIn(alphabet, set));
  const subsets = new Subsets(machine);
  /** Targets of the subset that is being explored, by class. */
  let row: { readonly of: Subset; readonly targets: readonly Subset[] } | undefined;
  const targetsOf = (subset: Subset): readonly Subset[] => {
    const reached: number[][] = Array.from({ length: alphabet.classes }, () => []);
    for (const state of subset.states) {
      for (const { set, to } of machine.reads[state]!) for (const of of classesOf[set]!) reached[of]!.push(to);
    }
    return reached.map((states) => subsets.after(states));
  };
  const steps = {
    key: ({ id }: Subset) => id,
    next: (subset: Subset, of: number): Subset => {
      if (row?.of !== subset) row = { of: subset, targets: targetsOf(subset) };
      return row.targets[of]!;
    },
    accepts: ({ states, isStart }: Subset) => machine.closure(states, { isStart, isEnd: true }).includes(final),
  };
  const start: Subset = { states: machine.closure([0], { isStart: true }), isStart: true, id: -1 };
  return minimized(explore(alphabet, start, steps, work), work);
}

/** States that a text may be in, and what tells them from all others: the number -1 is the start's alone. */
interface Subset {
  readonly states: readonly number[];
  readonly isStart: boolean;
  readonly id: number;
}

/** Subsets of a machine's states, each computed once: many characters lead to the same states. */
class Subsets {
  /** By a hash of the states that were read to. */
  readonly #after = new Map<number, { readonly read: readonly number[]; readonly subset: Subset }[]>();
  /** By a hash of all states. */
  readonly #known = new Map<number, Subset[]>();
  #count = 0;

  constructor(private readonly machine: Machine) {}

  /** The subset after a character with which some states of another were left for these. */
  after(read: readonly number[]): Subset {
    const found = entryOf(this.#after, read);
    // A comparison takes an eighth of what following free steps does; hashes of a pattern that seeks it are the same.
    this.machine.work.spend((read.length >> 3) + found.length);
    const known = found.find((entry) => isEqual(entry.read, read));
    if (known !== undefined) return known.subset;
    const states = this.machine.closure(read);
    const same = entryOf(this.#known, states);
    let subset = same.find((one) => isEqual(one.states, states));
    if (subset === undefined) {
      subset = { states, isStart: false, id: this.#count++ };
      same.push(subset);
    }
    found.push({ read, subset });
    return subset;
  }
}

function entryOf<T>(map: Map<number, T[]>, states: readonly number[]): T[] {
  let hash = states.length;
  for (const state of states) hash = Math.imul(hash ^ state, 0x9e3779b1) ^ (hash >>> 15);
  let found = map.get(hash);
  if (found === undefined) {
    found = [];
    map.set(hash, found);
  }
  return found;
}

const isEqual = (a: readonly number[], b: readonly number[]): boolean =>
  a.length === b.length && a.every((state, i) => state === b[i]);

/** Classes of an alphabet whose characters a set has; the alphabet tells its members from the others. */
function classesIn({ starts, classOf }: Alphabet, set: CodePointSet): ReadonlySet<number> {
  const found = new Set<number>();
  let interval = 0;
  for (let index = 0; index < set.length; index += 2) {
    while (starts[interval]! < set[index]!) interval++;
    for (; interval < starts.length && starts[interval]! <= set[index + 1]!; interval++) {
      if (classOf[interval]! >= 0) found.add(classOf[interval]!);
    }
  }
  return found;
}

/** Free steps of a state: always, only before the first character (^), only after the last one ($). */
interface FreeSteps {
  readonly always: number[];
  readonly atStart: number[];
  readonly atEnd: number[];
}

/** A nondeterministic automaton with ^ and $ as steps that are free at the start and at the end of the text. */
class Machine {
  readonly free: FreeSteps[] = [];
  readonly reads: { readonly set: number; readonly to: number }[][] = [];
  readonly sets: CodePointSet[] = [];
  readonly #setIds = new Map<string, number>();
  /** Round in which {@link closure} last met a state. */
  #seen: Uint32Array | undefined;
  #round = 0;

  constructor(readonly work: Budget) {}

  state(): number {
    this.work.spend(10);
    this.reads.push([]);
    if (this.reads.length > 60_000) this.work.exceed('its repetitions in one another are too many');
    return this.free.push({ always: [], atStart: [], atEnd: [] }) - 1;
  }

  /** Adds what the pattern reads after `from`; the state where it has been read. */
  add(pattern: Pattern, from: number): number {
    switch (pattern.kind) {
      case 'set': {
        const to = this.state();
        this.reads[from]!.push({ set: this.#set(pattern.set), to });
        return to;
      }
      case 'sequence':
        return pattern.parts.reduce((at, part) => this.add(part, at), from);
      case 'choice': {
        const to = this.state();
        for (const option of pattern.options) {
          const begin = this.state();
          this.free[from]!.always.push(begin);
          this.free[this.add(option, begin)]!.always.push(to);
        }
        return to;
      }
      case 'start':
      case 'end': {
        const to = this.state();
        this.free[from]![pattern.kind === 'start' ? 'atStart' : 'atEnd'].push(to);
        return to;
      }
      case 'repeat':
        return this.#repeat(pattern, from);
      case 'lookahead':
        throw new PatternError(0, 'look-ahead', 'look-ahead is supported only at the beginning of a pattern');
    }
  }

  #repeat({ what, min, max }: Extract<Pattern, { kind: 'repeat' }>, from: number): number {
    let at = from;
    for (let count = 0; count < min; count++) at = this.add(what, at);
    if (max === Number.POSITIVE_INFINITY) {
      const loop = this.state();
      this.free[at]!.always.push(loop);
      this.free[this.add(what, loop)]!.always.push(loop);
      const to = this.state();
      this.free[loop]!.always.push(to);
      return to;
    }
    const to = this.state();
    for (let count = min; count < max; count++) {
      this.free[at]!.always.push(to);
      // A state of its own: what follows must not lead back into the repetition before.
      const begin = this.state();
      this.free[at]!.always.push(begin);
      at = this.add(what, begin);
    }
    this.free[at]!.always.push(to);
    return to;
  }

  #set(set: CodePointSet): number {
    const key = set.join();
    const known = this.#setIds.get(key);
    if (known !== undefined) return known;
    const id = this.sets.push(set) - 1;
    this.#setIds.set(key, id);
    return id;
  }

  /** States that are reached for free, ascending: those that something follows, and the last one. */
  closure(from: readonly number[], { isStart = false, isEnd = false } = {}): number[] {
    this.#seen ??= new Uint32Array(this.reads.length);
    const [seen, round] = [this.#seen, ++this.#round];
    const open: number[] = [];
    const reach = (states: readonly number[]): void => {
      for (const state of states) {
        if (seen[state] === round) continue;
        seen[state] = round;
        open.push(state);
      }
    };
    const found: number[] = [];
    let visited = 0;
    reach(from);
    for (let state = open.pop(); state !== undefined; state = open.pop()) {
      visited++;
      const { always, atStart, atEnd } = this.free[state]!;
      reach(always);
      if (isStart) reach(atStart);
      if (isEnd) reach(atEnd);
      const isPassed = this.reads[state]!.length === 0 && atEnd.length === 0 && atStart.length === 0;
      if (!isPassed || always.length === 0) found.push(state);
    }
    this.work.spend(visited);
    return found.sort((a, b) => a - b);
  }
}
