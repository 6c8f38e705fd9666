import type { Automata, Automaton } from '../automata.js';
import type { SchemaNode } from './document.js';
import { ALL_NUMBERS, type NumberAutomata, type NumberSet } from './numbers.js';

/** A schema, or that it does not hold. */
export interface Literal {
  readonly node: SchemaNode;
  readonly isNegated: boolean;
}

/** Literals that hold together; none at all is any value. */
export type Conjunction = readonly Literal[];

export const keyOf = (conjunction: Conjunction) =>
  conjunction.map(({ node, isNegated }) => `${isNegated ? '!' : ''}${node.id}`).join('&');

export interface StringSet {
  readonly automaton?: Automaton;
  /** In code points. */
  readonly min: number;
  readonly max: number;
  /** Only these, where given. */
  readonly values?: readonly string[];
}

export interface ArrayShape {
  /** The first items; those after have `rest`. */
  readonly prefix: readonly Conjunction[];
  readonly rest: Conjunction;
  readonly min: number;
  readonly max: number;
  readonly contains: readonly Containing[];
  readonly isUnique: boolean;
  /** Number of items, from the first, that a keyword next to unevaluatedItems has evaluated. */
  readonly evaluated: number;
}

/** So many of the items from one on satisfy something. */
export interface Containing {
  readonly what: Conjunction;
  readonly from: number;
  readonly min: number;
  readonly max: number;
}

/** Properties of one schema object: `additional` is for those it names in no other way. */
export interface Layer {
  readonly properties: ReadonlyMap<string, Conjunction>;
  readonly patterns: readonly { readonly names: Automaton; readonly value: Conjunction }[];
  readonly additional: Conjunction | undefined;
  /** True if unevaluatedProperties takes the names here for evaluated. */
  readonly evaluates: boolean;
}

export interface ObjectShape {
  readonly layers: readonly Layer[];
  readonly required: ReadonlySet<string>;
  readonly names: readonly StringSet[];
  /** At least one property of each kind. */
  readonly exists: readonly { readonly names: Automaton; readonly value: Conjunction }[];
  readonly min: number;
  readonly max: number;
}

/** The values of a conjunction: the union of all that is listed, type by type. */
export interface Shape {
  readonly constants: ReadonlySet<null | boolean>;
  readonly numbers: readonly NumberSet[];
  readonly strings: readonly StringSet[];
  readonly arrays: readonly ArrayShape[];
  readonly objects: readonly ObjectShape[];
}

const MOST = Number.POSITIVE_INFINITY;
export const ALL_STRINGS: StringSet = { min: 0, max: MOST };
export const ALL_ARRAYS: ArrayShape = {
  prefix: [],
  rest: [],
  min: 0,
  max: MOST,
  contains: [],
  isUnique: false,
  evaluated: 0,
};
export const ALL_OBJECTS: ObjectShape = { layers: [], required: new Set(), names: [], exists: [], min: 0, max: MOST };

export const NO_VALUE: Shape = { constants: new Set(), numbers: [], strings: [], arrays: [], objects: [] };
export const ANY_VALUE: Shape = {
  constants: new Set([null, true, false]),
  numbers: [ALL_NUMBERS],
  strings: [ALL_STRINGS],
  arrays: [ALL_ARRAYS],
  objects: [ALL_OBJECTS],
};

/** Literals of both, each once. */
export function conjoin(...conjunctions: readonly Conjunction[]): Conjunction {
  const [only] = conjunctions;
  if (only !== undefined && conjunctions.length === 1 && only.length === 1 && !isTrue(only[0]!)) return only;
  const known = new Map<number, Literal>();
  for (const conjunction of conjunctions) {
    for (const literal of conjunction) {
      if (isFalse(literal)) return [literal];
      if (!isTrue(literal)) known.set(2 * literal.node.id + Number(literal.isNegated), literal);
    }
  }
  return [...known.values()];
}

const isTrue = ({ node, isNegated }: Literal) => node.schema === !isNegated;
const isFalse = ({ node, isNegated }: Literal) => node.schema === isNegated;
/** True if nothing satisfies it, by its own keywords. */
export const isNever = (conjunction: Conjunction) => conjunction.some(isFalse);

/** The operations on shapes, with the automata of one constraint. */
export class Shapes {
  constructor(
    readonly numbers: NumberAutomata,
    readonly automata: Automata,
    readonly alternatives: number,
    /** True if unevaluated keywords depend on the alternative that matched: then one that allows all hides no other. */
    readonly isAnnotated: boolean,
  ) {}

  union(...shapes: readonly Shape[]): Shape {
    const distinct = shapes.filter((shape) => shape !== NO_VALUE);
    if (distinct.length === 1) return distinct[0]!;
    if (!this.isAnnotated && distinct.includes(ANY_VALUE)) return ANY_VALUE;
    // The common part of two alternatives, such as all strings, is there once.
    return this.#bounded({
      constants: new Set(distinct.flatMap(({ constants }) => [...constants])),
      numbers: [...new Set(distinct.flatMap(({ numbers }) => numbers))],
      strings: [...new Set(distinct.flatMap(({ strings }) => strings))],
      arrays: [...new Set(distinct.flatMap(({ arrays }) => arrays))],
      objects: [...new Set(distinct.flatMap(({ objects }) => objects))],
    });
  }

  intersection(...shapes: readonly Shape[]): Shape {
    return shapes.reduce((a, b) => this.#both(a, b), ANY_VALUE);
  }

  #both(a: Shape, b: Shape): Shape {
    if (a === ANY_VALUE || a === b) return b;
    if (b === ANY_VALUE) return a;
    return this.#bounded({
      constants: new Set([...a.constants].filter((constant) => b.constants.has(constant))),
      numbers: pairwise(a.numbers, b.numbers, ALL_NUMBERS, (x, y) => this.numbers.both(x, y)).filter(
        (set) => !this.numbers.isEmpty(set),
      ),
      strings: pairwise(a.strings, b.strings, ALL_STRINGS, (x, y) => this.bothStrings(x, y)).filter(
        (set) => !this.#isEmptyStrings(set),
      ),
      arrays: pairwise(a.arrays, b.arrays, ALL_ARRAYS, bothArrays).filter((array) => !isImpossibleArray(array)),
      objects: pairwise(a.objects, b.objects, ALL_OBJECTS, bothObjects).filter((object) => !isImpossibleObject(object)),
    });
  }

  #bounded(shape: Shape): Shape {
    const { numbers, strings, arrays, objects } = shape;
    const count = numbers.length + strings.length + arrays.length + objects.length;
    this.automata.work.spend(count);
    if (count > this.alternatives) {
      this.automata.work.exceed(
        `its alternatives multiply to more than ${this.alternatives}; write fewer of them side by side`,
      );
    }
    return shape;
  }

  bothStrings(a: StringSet, b: StringSet): StringSet {
    const values = a.values ?? b.values;
    const min = Math.max(a.min, b.min);
    const max = Math.min(a.max, b.max);
    if (values !== undefined) {
      return { ...ALL_STRINGS, values: values.filter((value) => hasString(a, value) && hasString(b, value)) };
    }
    const automata = [a.automaton, b.automaton].filter((automaton) => automaton !== undefined);
    const [first, second] = automata;
    if (first === undefined) return { min, max };
    if (second === undefined || second === first) return { min, max, automaton: first };
    return { min, max, automaton: this.automata.both(first, second) };
  }

  automatonOf({ automaton, min, max, values }: StringSet): Automaton {
    const { automata } = this;
    if (values !== undefined) return automata.texts(values);
    const all = automaton ?? automata.everything;
    return min > 0 || max < MOST ? automata.both(all, automata.lengths(min, max)) : all;
  }

  /** The strings that are not in the set. */
  notStrings({ automaton, min, max, values }: StringSet): StringSet[] {
    const { automata } = this;
    if (values !== undefined) return [{ ...ALL_STRINGS, automaton: automata.not(automata.texts(values)) }];
    const outside: StringSet[] = [];
    if (automaton !== undefined) outside.push({ ...ALL_STRINGS, automaton: automata.not(automaton) });
    if (min > 0) outside.push({ min: 0, max: min - 1 });
    if (max < MOST) outside.push({ min: max + 1, max: MOST });
    return outside;
  }

  #isEmptyStrings({ automaton, min, max, values }: StringSet): boolean {
    return max < min || values?.length === 0 || (automaton !== undefined && this.automata.isEmpty(automaton));
  }
}

function pairwise<T>(a: readonly T[], b: readonly T[], all: T, both: (x: T, y: T) => T): T[] {
  return a.flatMap((x) => b.map((y) => (x === all || x === y ? y : y === all ? x : both(x, y))));
}

export function hasString({ automaton, min, max, values }: StringSet, value: string): boolean {
  const length = [...value].length;
  if (values !== undefined && !values.includes(value)) return false;
  return length >= min && length <= max && (automaton === undefined || automaton.has(value));
}

/** Schema for the item at an index. */
export const itemAt = ({ prefix, rest }: Pick<ArrayShape, 'prefix' | 'rest'>, index: number) => prefix[index] ?? rest;

function bothArrays(a: ArrayShape, b: ArrayShape): ArrayShape {
  const length = Math.max(a.prefix.length, b.prefix.length);
  return {
    prefix: Array.from({ length }, (_, index) => conjoin(itemAt(a, index), itemAt(b, index))),
    rest: conjoin(a.rest, b.rest),
    min: Math.max(a.min, b.min),
    max: Math.min(a.max, b.max),
    contains: [...new Set([...a.contains, ...b.contains])],
    isUnique: a.isUnique || b.isUnique,
    evaluated: Math.max(a.evaluated, b.evaluated),
  };
}

function isImpossibleArray(array: ArrayShape): boolean {
  const { min, max, prefix } = array;
  if (max < min) return true;
  const needed = Math.min(min, prefix.length + 1);
  return Array.from({ length: needed }, (_, index) => itemAt(array, index)).some(isNever);
}

function bothObjects(a: ObjectShape, b: ObjectShape): ObjectShape {
  return {
    layers: [...new Set([...a.layers, ...b.layers])],
    required: new Set([...a.required, ...b.required]),
    names: [...new Set([...a.names, ...b.names])],
    exists: [...new Set([...a.exists, ...b.exists])],
    min: Math.max(a.min, b.min),
    max: Math.min(a.max, b.max),
  };
}

/** Schema for the property of this name. */
export function valueAt({ layers }: ObjectShape, name: string): Conjunction {
  return conjoin(
    ...layers.map(({ properties, patterns, additional }) => {
      const named = properties.get(name);
      if (patterns.length === 0) return named ?? additional ?? [];
      const matching = patterns.filter(({ names }) => names.has(name)).map(({ value }) => value);
      const found = named === undefined ? matching : [named, ...matching];
      return found.length > 0 ? conjoin(...found) : (additional ?? []);
    }),
  );
}

function isImpossibleObject(object: ObjectShape): boolean {
  const { required, names, min, max } = object;
  if (max < min || required.size > max) return true;
  return [...required].some((name) => isNever(valueAt(object, name)) || names.some((set) => !hasString(set, name)));
}
