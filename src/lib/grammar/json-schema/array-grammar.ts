import { choice, type Expression, IMPOSSIBLE, NOTHING, optional, repeat, sequence, text } from '../grammar.js';
import { CONSTRAINT_LIMITS } from '../limits.js';
import { type ArrayShape, type Conjunction, conjoin, isNever, itemAt, type Literal } from './shape.js';
import { MOST_UNIQUE, uniqueItems } from './unique-items.js';
import type { ValueGrammar } from './value-grammar.js';

/** An array: its first items one by one, the rest alike. */
export function arrayExpression(array: ArrayShape, conjunction: Conjunction, values: ValueGrammar): Expression {
  if (array.isUnique && array.max > 1) {
    const items = uniqueItems(array, values);
    if (items !== undefined) return sequence(text('['), values.space(), items, text(']'));
    const sentence = `uniqueItems is supported only for items that are one of at most ${MOST_UNIQUE} constants, or for arrays of one item; leave it out`;
    throw values.refusal(conjunction, ['uniqueItems'], sentence);
  }
  if (array.max > CONSTRAINT_LIMITS.repetitions && array.max < Number.POSITIVE_INFINITY) {
    const sentence = `maxItems is ${array.max}, more than the ${CONSTRAINT_LIMITS.repetitions} we count to`;
    throw values.refusal(conjunction, ['maxItems', 'not'], sentence);
  }
  const items = array.contains.length === 0 ? listed(array, values) : new Counting(array, values).items();
  return sequence(text('['), values.space(), items, text(']'));
}

/** The items between the brackets, the last ones inside of what is optional. */
function listed({ prefix, rest, min, max }: ArrayShape, values: ValueGrammar): Expression {
  const first = prefix.findIndex(isNever);
  const most = Math.min(max, first >= 0 ? first : isNever(rest) ? prefix.length : max);
  if (most < min) return IMPOSSIBLE;
  const length = Math.min(prefix.length, most);
  const item = (index: number) => values.value(itemAt({ prefix, rest }, index));
  const separator = values.separator();
  const space = values.space();
  if (length === 0) {
    if (most === 0) return NOTHING;
    const more = repeat(sequence(separator, item(0)), Math.max(min - 1, 0), most - 1);
    const some = sequence(item(0), more, space);
    return min === 0 ? optional(some) : some;
  }
  let tail = repeat(sequence(separator, item(length)), Math.max(min - length, 0), most - length);
  for (let index = length - 1; index >= 0; index--) {
    const here = sequence(index === 0 ? NOTHING : separator, item(index), tail);
    if (index === 0) return min === 0 ? optional(sequence(here, space)) : sequence(here, space);
    tail = index >= min ? values.grammar.add('items', optional(here)) : here;
  }
  return tail;
}

/** Number of written items, and number of them that count for each `contains`; both as far as it matters. */
interface Counts {
  readonly items: number;
  readonly matches: readonly number[];
}

class Counting {
  readonly #known = new Set<string>();
  readonly #id: string;
  readonly #last: number;

  constructor(
    readonly array: ArrayShape,
    readonly values: ValueGrammar,
  ) {
    const { prefix, min, max, contains } = array;
    this.#id = values.grammar.fresh();
    // From here on, all items are alike and none is missing.
    this.#last = Number.isFinite(max) ? max : Math.max(prefix.length, min, ...contains.map(({ from }) => from));
  }

  items(): Expression {
    const start = { items: 0, matches: this.array.contains.map(() => 0) };
    const some = sequence(this.#item(start), this.values.space());
    return this.#mayEnd(start) ? choice(NOTHING, some) : some;
  }

  #mayEnd({ items, matches }: Counts): boolean {
    return items >= this.array.min && this.array.contains.every(({ min }, index) => matches[index]! >= min);
  }

  /** One item and what follows. */
  #item(counts: Counts): Expression {
    const { max, contains } = this.array;
    if (counts.items >= max) return IMPOSSIBLE;
    const key = `${counts.items} ${counts.matches.join()}`;
    this.#known.add(key);
    if (this.#known.size > CONSTRAINT_LIMITS.alternatives)
      this.values.work.exceed('it counts too many items of too many kinds');
    const { grammar } = this.values;
    return grammar.shared(`items ${this.#id} ${key}`, 'items', () => {
      const options: Expression[] = [];
      for (let subset = 0; subset < 2 ** contains.length; subset++) {
        const expression = this.#choose(counts, (index) => ((subset >> index) & 1) === 1);
        if (expression !== undefined) options.push(expression);
      }
      return choice(...options);
    });
  }

  /** An item that counts for these `contains`, and for the others does not, where they have a maximum. */
  #choose({ items, matches }: Counts, counts: (index: number) => boolean): Expression | undefined {
    const { contains } = this.array;
    const asked: Literal[][] = [[...itemAt(this.array, items)]];
    const next: number[] = [];
    for (const [index, { what, from, min, max }] of contains.entries()) {
      const isCounted = counts(index);
      if (isCounted && items < from) return undefined;
      const most = Number.isFinite(max) ? max : min;
      if (isCounted && Number.isFinite(max) && matches[index]! >= max) return undefined;
      if (isCounted) asked.push([...what]);
      else if (Number.isFinite(max)) asked.push(what.map(({ node, isNegated }) => ({ node, isNegated: !isNegated })));
      next.push(Math.min(matches[index]! + (isCounted ? 1 : 0), most));
    }
    const value = conjoin(...asked);
    if (isNever(value)) return undefined;
    const after = { items: Math.min(items + 1, this.#last), matches: next };
    return sequence(this.values.value(value), this.#after(after));
  }

  #after(counts: Counts): Expression {
    const more = sequence(this.values.separator(), this.#item(counts));
    return this.#mayEnd(counts) ? optional(more) : more;
  }
}
