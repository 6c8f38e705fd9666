import type { Automaton } from '../automata.js';
import {
  choice,
  choiceOf,
  type Expression,
  IMPOSSIBLE,
  NOTHING,
  optional,
  repeat,
  sequence,
  text,
} from '../grammar.js';
import { constantInJson } from '../json-strings.js';
import { type Conjunction, conjoin, hasString, isNever, keyOf, type ObjectShape, valueAt } from './shape.js';
import type { ValueGrammar } from './value-grammar.js';

const MOST = Number.POSITIVE_INFINITY;
/** Keywords that can ask for a property whose name is free. */
const NEGATING = ['not', 'oneOf', 'if', 'anyOf', 'allOf'];
/** Kinds of names that patterns may tell apart. */
const MOST_KINDS = 64;

/** Names that are not listed, and what their values are. */
interface OtherNames {
  readonly names: Automaton;
  readonly value: Conjunction;
}

interface Member {
  readonly expression: Expression;
  readonly isRequired: boolean;
}

/** An object: its named properties in order, optional ones left out as they please, then all others. */
export function objectExpression(
  object: ObjectShape,
  order: readonly string[],
  conjunction: Conjunction,
  values: ValueGrammar,
): Expression {
  const [exists, ...more] = object.exists;
  const refuse = (keywords: readonly string[], sentence: string): never => {
    throw values.refusal(conjunction, keywords, sentence);
  };
  if (more.length > 0) refuse(NEGATING, 'it asks for several properties whose names are free');
  const place = new Map(order.map((name, index) => [name, index]));
  const mentioned = new Set([...object.layers.flatMap(({ properties }) => [...properties.keys()]), ...object.required]);
  const named = [...mentioned].sort((a, b) => (place.get(a) ?? MOST) - (place.get(b) ?? MOST) || 0);
  const others = otherNames(object, named, values);
  if (exists === undefined) return members(object, named, others, undefined, values, refuse);
  // One of the named properties is what must exist, or one of the others is.
  const asNamed = named
    .filter((name) => hasString({ min: 0, max: MOST, automaton: exists.names }, name))
    .map((name) => {
      const layer = {
        properties: new Map([[name, exists.value]]),
        patterns: [],
        additional: undefined,
        evaluates: false,
      };
      const chosen = { ...object, layers: [...object.layers, layer], required: new Set([...object.required, name]) };
      return members(chosen, named, others, undefined, values, refuse);
    });
  const { automata } = values.grammar;
  const matching = others
    .map(({ names, value }) => ({
      names: automata.both(names, exists.names),
      value: conjoin(value, exists.value),
    }))
    .filter(({ names, value }) => !automata.isEmpty(names) && !isNever(value));
  return choiceOf([...asNamed, members(object, named, others, matching, values, refuse)]);
}

/** A refusal by the first of some keywords that the object's schemas have. */
type Refuse = (keywords: readonly string[], sentence: string) => never;

function members(
  object: ObjectShape,
  named: readonly string[],
  others: readonly OtherNames[],
  needed: readonly OtherNames[] | undefined,
  values: ValueGrammar,
  refuse: Refuse,
): Expression {
  const listed: Member[] = [];
  for (const name of named) {
    const isRequired = object.required.has(name);
    const value = valueAt(object, name);
    const isAllowed = !isNever(value) && object.names.every((set) => hasString(set, name));
    if (!isAllowed && isRequired) return IMPOSSIBLE;
    if (!isAllowed) continue;
    const expression = sequence(constantInJson(name, values.grammar), values.colon(), values.value(value));
    listed.push({ isRequired, expression });
  }
  const other = otherMember(others, values);
  const must = needed === undefined ? undefined : otherMember(needed, values);
  const body = new Body(listed, other, must, object, values, refuse).from(0, 0, false);
  return sequence(text('{'), values.space(), body, text('}'));
}

function otherMember(others: readonly OtherNames[], values: ValueGrammar): Expression {
  return choice(
    ...others.map(({ names, value }) => {
      const name = values.name(names);
      return sequence(name, values.colon(), values.value(value));
    }),
  );
}

/** Text between the braces, from a member on, after so many members. */
class Body {
  readonly #least: number;
  readonly #most: number;
  readonly #id: string;

  constructor(
    readonly listed: readonly Member[],
    readonly other: Expression,
    readonly must: Expression | undefined,
    { min, max }: ObjectShape,
    readonly values: ValueGrammar,
    readonly refuse: Refuse,
  ) {
    this.#id = values.grammar.fresh();
    const required = listed.filter(({ isRequired }) => isRequired).length;
    this.#least = min <= required + (must === undefined ? 0 : 1) ? 0 : min;
    this.#most = other === IMPOSSIBLE && must === undefined && max >= listed.length ? MOST : max;
    if (this.#least > required + 1 && other !== IMPOSSIBLE) {
      refuse(
        ['minProperties', ...NEGATING],
        `at least ${min} properties cannot be counted where a free name may come twice; require names`,
      );
    }
  }

  /** Counting only where it matters, all counts share one rule. */
  from(index: number, written: number, isStarted: boolean): Expression {
    const isCounted = this.#least > 0 || this.#most < MOST;
    const count = isCounted ? written : 0;
    const key = `members ${this.#id} ${index} ${count} ${isStarted}`;
    return this.values.grammar.shared(key, 'members', () => this.#content(index, written, isStarted));
  }

  #content(index: number, written: number, isStarted: boolean): Expression {
    const member = this.listed[index];
    if (member === undefined) return this.#end(written, isStarted);
    const before = isStarted ? this.values.separator() : NOTHING;
    const isRoom = written < this.#most;
    const isCounted = this.#least > 0 || this.#most < MOST;
    // Once one is written, a member that may be left out is followed by the same, whether it is there or not.
    if (isStarted && !isCounted) {
      const here = sequence(before, member.expression);
      return sequence(member.isRequired ? here : optional(here), this.from(index + 1, written, true));
    }
    const taken = isRoom ? sequence(before, member.expression, this.from(index + 1, written + 1, true)) : IMPOSSIBLE;
    return member.isRequired ? taken : choice(taken, this.from(index + 1, written, isStarted));
  }

  /** The properties of other names, and the space before the brace. */
  #end(written: number, isStarted: boolean): Expression {
    const { values, other, must } = this;
    const space = values.space();
    const least = Math.max(this.#least - written, 0);
    const most = this.#most - written;
    const more = sequence(values.separator(), other);
    const close = isStarted ? space : NOTHING;
    if (must !== undefined) {
      if (this.#most < MOST)
        this.refuse(['maxProperties', ...NEGATING], 'it counts properties beside asking for one whose name is free');
      const before = isStarted ? repeat(more, 0, MOST) : NOTHING;
      const first = isStarted
        ? sequence(values.separator(), must)
        : choice(must, sequence(other, repeat(more, 0, MOST), values.separator(), must));
      return sequence(before, first, repeat(more, 0, MOST), space);
    }
    if (other === IMPOSSIBLE || most <= 0) return least > 0 ? IMPOSSIBLE : close;
    if (isStarted) return sequence(repeat(more, least, most), space);
    const some = sequence(other, repeat(more, Math.max(least - 1, 0), most - 1), space);
    return least > 0 ? some : choice(NOTHING, some);
  }
}

/** The names beside the listed ones, by what their values are. */
function otherNames(object: ObjectShape, named: readonly string[], values: ValueGrammar): OtherNames[] {
  const { automata } = values.grammar;
  const { layers } = object;
  const patterns = [...new Set(layers.flatMap((layer) => layer.patterns.map(({ names }) => names)))];
  if (patterns.length === 0 && isNever(othersOf(object, new Set()))) return [];
  let free = automata.not(automata.texts(named));
  for (const set of object.names) free = automata.both(free, values.expansion.shapes.automatonOf(set));
  let kinds = [{ names: free, matched: new Set<Automaton>() }];
  for (const pattern of patterns) {
    kinds = kinds
      .flatMap(({ names, matched }) => [
        { names: automata.both(names, pattern), matched: new Set([...matched, pattern]) },
        { names: automata.both(names, automata.not(pattern)), matched },
      ])
      .filter(({ names }) => !automata.isEmpty(names));
    if (kinds.length > MOST_KINDS) values.work.exceed(`its patterns tell more than ${MOST_KINDS} kinds of names apart`);
  }
  const found = new Map<string, OtherNames>();
  for (const { names, matched } of kinds) {
    const value = othersOf(object, matched);
    if (isNever(value) || automata.isEmpty(names)) continue;
    const same = found.get(keyOf(value));
    found.set(keyOf(value), { value, names: same === undefined ? names : automata.either(same.names, names) });
  }
  return [...found.values()];
}

/** Schema for a name that is not listed and matches these patterns. */
function othersOf({ layers }: ObjectShape, matched: ReadonlySet<Automaton>): Conjunction {
  return conjoin(
    ...layers.map(({ patterns, additional }) => {
      const found = patterns.filter(({ names }) => matched.has(names)).map(({ value }) => value);
      return found.length > 0 ? conjoin(...found) : (additional ?? []);
    }),
  );
}
