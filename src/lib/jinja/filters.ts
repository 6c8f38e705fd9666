import { getAttributeAsItem } from './attributes.js';
import type { Budget } from './budget.js';
import { fail } from './errors.js';
import { binary, equals, order, subscript } from './operators.js';
import { type Filter, intArgument, SCALAR_FILTERS } from './scalar-filters.js';
import { applyTest } from './tests.js';
import { lengthOfText, str } from './text.js';
import {
  Arguments,
  asText,
  Dict,
  generator,
  isTruthy,
  iterate,
  list,
  NONE,
  None,
  Sequence,
  tuple,
  typeName,
  Undefined,
  type Value,
} from './values.js';

/** @throws TemplateError for a filter that Jinja has not, or that is not supported */
export function applyFilter(name: string, value: Value, args: Arguments): Value {
  const filter = FILTERS.get(name) ?? fail(`the filter "${name}" is not supported`);
  args.budget.charge(1);
  return filter(value, args);
}

/** Value that `attribute='a.b.0'` picks out of an item; the item itself without an attribute. */
function picker(attribute: Value | undefined, budget: Budget, fallback?: Value): (item: Value) => Value {
  if (attribute === undefined || attribute instanceof None) return (item) => item;
  const path = asText(attribute)?.split('.') ?? [attribute];
  const parts = path.map((part) => (typeof part === 'string' && /^\d+$/.test(part) ? Number(part) : part));
  return (item) =>
    parts.reduce<Value>((at, part) => {
      const picked = subscript(at, part, budget) ?? getAttributeAsItem(at, part, budget);
      return fallback !== undefined && picked instanceof Undefined ? fallback : picked;
    }, item);
}

const foldCase = (value: Value): Value => (typeof value === 'string' ? value.toLowerCase() : value);

/** The value that items are ordered by: of a comma-separated list of attributes, all of them. */
function sortKey(
  attribute: Value | undefined,
  caseSensitive: Value | undefined,
  budget: Budget,
): (item: Value) => Value {
  const fold = isTruthy(caseSensitive ?? false) ? (value: Value) => value : foldCase;
  const names = asText(attribute)?.split(',') ?? [attribute];
  const pickers = names.map((name) => picker(name, budget));
  if (pickers.length === 1) return (item) => fold(pickers[0]!(item));
  return (item) => list(pickers.map((pick) => fold(pick(item))));
}

function sorted(items: readonly Value[], key: (item: Value) => Value, reverse: boolean, budget: Budget): Value[] {
  budget.charge(items.length * 8);
  const keyed = items.map((item) => ({ item, key: key(item) }));
  const sign = reverse ? -1 : 1;
  return keyed.sort((a, b) => sign * order(a.key, b.key, budget)).map(({ item }) => item);
}

const extreme =
  (name: 'min' | 'max'): Filter =>
  (value, args) => {
    const [caseSensitive, attribute] = args.bind(name, 'case_sensitive', 'attribute');
    const key = sortKey(attribute, caseSensitive, args.budget);
    let best: Value | undefined;
    for (const item of iterate(value, args.budget)) {
      const sign = best === undefined ? 1 : order(key(item), key(best), args.budget);
      if (best === undefined || (name === 'min' ? sign < 0 : sign > 0)) best = item;
    }
    return best ?? new Undefined('no aggregated item, sequence was empty');
  };

/** `select`, `reject` and their twins for an attribute; without the name of a test, what is true passes. */
const selecting =
  (wanted: boolean, byAttribute: boolean): Filter =>
  (value, args) => {
    // As in Jinja, where nothing is asked of a false value: `none` has no items.
    if (!isTruthy(value)) return generator([]);
    let { positional } = args;
    let pick = (item: Value) => item;
    if (byAttribute) {
      if (positional.length === 0) fail('the name of the attribute is missing');
      pick = picker(positional[0], args.budget);
      positional = positional.slice(1);
    }
    const [test, ...rest] = positional;
    const testArguments = new Arguments(rest, args.named, args.budget);
    const passes = (item: Value) =>
      test === undefined ? isTruthy(item) : applyTest(asText(test) ?? '', item, testArguments);
    return generator(iterate(value, args.budget).filter((item) => passes(pick(item)) === wanted));
  };

const map: Filter = (value, args) => {
  if (!isTruthy(value)) return generator([]);
  const attribute = args.named.get('attribute');
  if (args.positional.length === 0 && attribute !== undefined) {
    const pick = picker(attribute, args.budget, args.named.get('default'));
    return generator(iterate(value, args.budget).map(pick));
  }
  const [name, ...rest] = args.positional;
  const filter = asText(name) ?? fail('map needs the name of a filter');
  const filterArguments = new Arguments(rest, args.named, args.budget);
  return generator(iterate(value, args.budget).map((item) => applyFilter(filter, item, filterArguments)));
};

const length: Filter = (value, args) => {
  args.bind('length');
  const text = asText(value);
  if (text !== undefined) {
    args.budget.charge(text.length / 64);
    return lengthOfText(text);
  }
  if (value instanceof Undefined) return 0;
  if (value instanceof Dict) return value.size;
  if (value instanceof Sequence && value.kind !== 'generator') return value.items.length;
  return fail(`object of type '${typeName(value)}' has no length`);
};

const batch: Filter = (value, args) => {
  const [count, fill = NONE] = args.bind('batch', 'linecount', 'fill_with');
  const size = intArgument(count, 0);
  if (size < 1) return fail('batch needs a number above 0');
  const items = iterate(value, args.budget);
  const rows: Value[] = [];
  for (let at = 0; at < items.length; at += size) {
    const row = items.slice(at, at + size);
    args.budget.charge(fill instanceof None ? row.length : size);
    rows.push(list(fill instanceof None ? row : [...row, ...Array<Value>(size - row.length).fill(fill)]));
  }
  return generator(rows);
};

const groupby: Filter = (value, args) => {
  const [attribute, fallback, caseSensitive = false] = args.bind('groupby', 'attribute', 'default', 'case_sensitive');
  const pick = picker(attribute, args.budget, fallback);
  const key = (item: Value) => (isTruthy(caseSensitive) ? pick(item) : foldCase(pick(item)));
  const groups: { key: Value; first: Value; items: Value[] }[] = [];
  for (const item of sorted(iterate(value, args.budget), key, false, args.budget)) {
    const last = groups.at(-1);
    if (last !== undefined && equals(last.key, key(item), args.budget)) last.items.push(item);
    else groups.push({ key: key(item), first: pick(item), items: [item] });
  }
  return list(
    groups.map(({ first, items }) => new Sequence('tuple', [first, list(items)], undefined, ['grouper', 'list'])),
  );
};

const unique: Filter = (value, args) => {
  const [caseSensitive, attribute] = args.bind('unique', 'case_sensitive', 'attribute');
  const key = sortKey(attribute, caseSensitive, args.budget);
  const seen = new Dict();
  return generator(
    iterate(value, args.budget).filter((item) => {
      const isNew = seen.get(key(item)) === undefined;
      seen.set(key(item), true);
      return isNew;
    }),
  );
};

const dictsort: Filter = (value, args) => {
  const [caseSensitive, by = 'key', reverse = false] = args.bind('dictsort', 'case_sensitive', 'by', 'reverse');
  if (!(value instanceof Dict)) return fail(`a ${typeName(value)} has no keys to sort by`);
  if (by !== 'key' && by !== 'value') return fail('by must be key or value');
  const key = sortKey(by === 'key' ? 0 : 1, caseSensitive, args.budget);
  return list(
    sorted(
      value.entries().map((entry) => tuple(...entry)),
      key,
      isTruthy(reverse),
      args.budget,
    ),
  );
};

const reverse: Filter = (value, args) => {
  args.bind('reverse');
  const text = asText(value);
  const reversed = [...iterate(value, args.budget)].reverse();
  return text === undefined ? generator(reversed) : (reversed as string[]).join('');
};

const FILTERS: ReadonlyMap<string, Filter> = new Map<string, Filter>([
  ...SCALAR_FILTERS,
  ['batch', batch],
  ['count', length],
  ['d', defaulting],
  ['default', defaulting],
  ['dictsort', dictsort],
  ['first', firstOf],
  ['groupby', groupby],
  ['items', itemsOf],
  ['join', joined],
  ['last', lastOf],
  ['length', length],
  ['list', toList],
  ['map', map],
  ['max', extreme('max')],
  ['min', extreme('min')],
  ['reject', selecting(false, false)],
  ['rejectattr', selecting(false, true)],
  ['reverse', reverse],
  ['select', selecting(true, false)],
  ['selectattr', selecting(true, true)],
  ['sort', sort],
  ['sum', sum],
  ['unique', unique],
]);

function defaulting(value: Value, args: Arguments): Value {
  const [fallback = '', alsoFalse = false] = args.bind('default', 'default_value', 'boolean');
  return value instanceof Undefined || (isTruthy(alsoFalse) && !isTruthy(value)) ? fallback : value;
}

function firstOf(value: Value, args: Arguments): Value {
  args.bind('first');
  const first = value instanceof Sequence ? value.take(1)[0] : iterate(value, args.budget)[0];
  return first ?? new Undefined('no first item, sequence was empty');
}

function lastOf(value: Value, args: Arguments): Value {
  args.bind('last');
  if (value instanceof Sequence && value.kind === 'generator') return fail('a generator has no last item');
  return iterate(value, args.budget).at(-1) ?? new Undefined('no last item, sequence was empty');
}

function itemsOf(value: Value, args: Arguments): Value {
  args.bind('items');
  if (value instanceof Undefined) return generator([]);
  if (!(value instanceof Dict)) return fail('can only get item pairs from a mapping');
  args.budget.charge(value.size);
  return generator(value.entries().map((entry) => tuple(...entry)));
}

function joined(value: Value, args: Arguments): Value {
  const [separator = '', attribute] = args.bind('join', 'd', 'attribute');
  const pick = picker(attribute, args.budget);
  const between = str(separator, args.budget);
  const parts = iterate(value, args.budget).map((item) => str(pick(item), args.budget));
  args.budget.chargeText(parts.reduce((total, part) => total + part.length + between.length, 0));
  return parts.join(between);
}

function sort(value: Value, args: Arguments): Value {
  const [backwards = false, caseSensitive, attribute] = args.bind('sort', 'reverse', 'case_sensitive', 'attribute');
  const key = sortKey(attribute, caseSensitive, args.budget);
  return list(sorted(iterate(value, args.budget), key, isTruthy(backwards), args.budget));
}

function sum(value: Value, args: Arguments): Value {
  const [attribute, start = 0] = args.bind('sum', 'attribute', 'start');
  const pick = picker(attribute, args.budget);
  if (asText(start) !== undefined) fail('sum() does not add strings; use join');
  return iterate(value, args.budget).reduce<Value>((total, item) => binary('+', total, pick(item), args.budget), start);
}

function toList(value: Value, args: Arguments): Value {
  args.bind('list');
  return list(iterate(value, args.budget));
}
