import { choice, type Expression, IMPOSSIBLE, NOTHING, sequence, text } from '../grammar.js';
import { constantInJson } from '../json-strings.js';
import { constantNumber } from './numbers.js';
import type { ArrayShape } from './shape.js';
import type { ValueGrammar } from './value-grammar.js';

/** There is a rule for each set of constants that are left. */
export const MOST_UNIQUE = 8;

/**
 * Text between the brackets of an array of different constants.
 *
 * @returns undefined where the items are not a few constants
 */
export function uniqueItems(
  { prefix, rest, min, max, contains }: ArrayShape,
  values: ValueGrammar,
): Expression | undefined {
  if (prefix.length > 0 || contains.length > 0) return undefined;
  const { constants, numbers, strings, arrays, objects } = values.expansion.shapeOf(rest);
  if (arrays.length + objects.length > 0) return undefined;
  if ([...numbers, ...strings].some((set) => set.values === undefined)) return undefined;
  const decimals = new Map(
    numbers.flatMap((set) => (set.values ?? []).map((value) => [value.key, constantNumber(value, set.isInteger)])),
  );
  const words = new Set(strings.flatMap((set) => set.values ?? []));
  const items = [
    ...[...constants].map((constant) => text(String(constant))),
    ...[...decimals.values()].map((number) => text(number)),
    ...[...words].map((word) => constantInJson(word, values.grammar)),
  ];
  if (items.length > MOST_UNIQUE) return undefined;
  const { grammar } = values;
  const id = grammar.fresh();
  const after = (taken: number): Expression =>
    grammar.shared(`unique ${id} ${taken}`, 'unique', () => {
      const count = items.filter((_, index) => (taken >> index) & 1).length;
      const more = items.map((item, index) =>
        (taken >> index) & 1 || count >= max
          ? IMPOSSIBLE
          : sequence(count > 0 ? values.separator() : NOTHING, item, after(taken | (1 << index))),
      );
      const end = count > 0 ? values.space() : NOTHING;
      return choice(...more, ...(count >= min ? [end] : []));
    });
  return after(0);
}
