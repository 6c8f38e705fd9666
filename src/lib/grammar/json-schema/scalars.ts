import { Decimal } from '../../json/decimal.js';
import { isJsonNumeric, isJsonObject, jsonText } from '../../json/exact-json.js';
import type { SchemaObject } from './document.js';
import type { Expansion } from './expand.js';
import { FORMATS } from './formats.js';
import { NULLABLE } from './keywords.js';
import { ALL_NUMBERS, type NumberSet } from './numbers.js';
import type { Reading } from './reading.js';
import { ALL_ARRAYS, ALL_OBJECTS, ALL_STRINGS, ANY_VALUE, NO_VALUE, type Shape, type StringSet } from './shape.js';

const TYPES: Readonly<Record<string, Partial<Shape>>> = {
  null: { constants: new Set([null]) },
  boolean: { constants: new Set([true, false]) },
  integer: { numbers: [{ isInteger: true }] },
  number: { numbers: [ALL_NUMBERS] },
  string: { strings: [ALL_STRINGS] },
  array: { arrays: [ALL_ARRAYS] },
  object: { objects: [ALL_OBJECTS] },
};

/**
 * True if `nullable` adds null to the types of `type`: OpenAPI 3.0.3 gives it no meaning without `type`, and `enum` holds in
 * addition.
 */
export function isNullable(schema: SchemaObject): boolean {
  return schema[NULLABLE] === true && schema.type !== undefined;
}

/** The values of the types that `type` lists, and null where it is nullable. */
export function typeShape(reading: Reading, { shapes }: Expansion): Shape {
  if (!reading.has('type')) return ANY_VALUE;
  const names = [reading.schema.type, ...(isNullable(reading.schema) ? ['null'] : [])].flat();
  return shapes.union(
    ...names.map((name): Shape => {
      const shape = typeof name === 'string' && Object.hasOwn(TYPES, name) ? TYPES[name] : undefined;
      if (shape === undefined) throw reading.wrong('type', `${jsonText(name)} is not a type of JSON`);
      return { ...NO_VALUE, ...shape };
    }),
  );
}

/** The bounds and divisors of a schema, one set each: a number is in all of them. */
export function numberSets(reading: Reading, { numbers }: Expansion): { keyword: string; set: NumberSet }[] {
  const found: { keyword: string; set: NumberSet }[] = [];
  const { schema, work } = reading;
  for (const [keyword, exclusive, side] of [
    ['minimum', 'exclusiveMinimum', 'above'],
    ['maximum', 'exclusiveMaximum', 'below'],
  ] as const) {
    Object.assign(work, reading.place(keyword));
    // In draft-04, exclusiveMinimum is a property of minimum.
    const isExclusive = schema[exclusive] === true;
    const bound = reading.number(keyword);
    if (bound !== undefined)
      found.push({ keyword, set: { isInteger: false, automaton: numbers[side](bound, !isExclusive) } });
    if (typeof schema[exclusive] === 'boolean') continue;
    const open = reading.number(exclusive);
    if (open !== undefined) {
      found.push({ keyword: exclusive, set: { isInteger: false, automaton: numbers[side](open, false) } });
    }
  }
  const divisor = reading.number('multipleOf');
  if (divisor === undefined) return found;
  Object.assign(work, reading.place('multipleOf'));
  if (divisor.isZero || divisor.isNegative) throw reading.wrong('multipleOf', 'multipleOf must be more than 0');
  const automaton = numbers.multiples(divisor);
  if (automaton === undefined)
    throw reading.unsupported('multipleOf', `${divisor.text} has too many remainders to keep track of`);
  return [...found, { keyword: 'multipleOf', set: { isInteger: false, automaton } }];
}

/** Restrictions of strings in a schema, one set each: a string is in all of them. */
export function stringSets(reading: Reading, expansion: Expansion): { keyword: string; set: StringSet }[] {
  const found: { keyword: string; set: StringSet }[] = [];
  const min = reading.least('minLength');
  if (min !== undefined) found.push({ keyword: 'minLength', set: { ...ALL_STRINGS, min } });
  const max = reading.count('maxLength');
  if (max !== undefined) found.push({ keyword: 'maxLength', set: { ...ALL_STRINGS, max } });
  const { pattern, format } = reading.schema;
  if (pattern !== undefined) {
    if (typeof pattern !== 'string') throw reading.wrong('pattern', 'pattern must be a string');
    const automaton = expansion.pattern(reading, pattern, 'search', 'pattern');
    found.push({ keyword: 'pattern', set: { ...ALL_STRINGS, automaton } });
  }
  if (format === undefined) return found;
  const source = typeof format === 'string' ? FORMATS.get(format) : undefined;
  if (source === undefined) return found;
  const automaton = expansion.pattern(reading, source, 'whole', 'format');
  return [...found, { keyword: 'format', set: { ...ALL_STRINGS, automaton } }];
}

/** Values that `type` and the keywords of numbers and strings allow. */
export function scalarShape(reading: Reading, expansion: Expansion): Shape {
  const { shapes } = expansion;
  return shapes.intersection(
    typeShape(reading, expansion),
    ...numberSets(reading, expansion).map(({ set }) => ({ ...ANY_VALUE, numbers: [set] })),
    ...stringSets(reading, expansion).map(({ set }) => ({ ...ANY_VALUE, strings: [set] })),
  );
}

/** Values that `const` and `enum` allow. */
export function constantShape(reading: Reading, expansion: Expansion): Shape {
  const parts: Shape[] = [];
  if (reading.has('const')) parts.push(valuesShape([reading.schema.const], reading, expansion));
  if (reading.has('enum')) parts.push(valuesShape(reading.list('enum'), reading, expansion));
  return expansion.shapes.intersection(...parts);
}

function valuesShape(values: readonly unknown[], { node }: Reading, { document, shapes }: Expansion): Shape {
  const constants = values.filter((value) => value === null || typeof value === 'boolean');
  const numbers = distinctNumbers(values);
  const strings = values.filter((value) => typeof value === 'string');
  const constant = (value: unknown) => [{ node: document.make({ const: value }, node), isNegated: false }];
  const nested = values.map((value): Shape => {
    if (Array.isArray(value)) {
      const size = { min: value.length, max: value.length };
      const rest = [{ node: document.never, isNegated: false }];
      return { ...NO_VALUE, arrays: [{ ...ALL_ARRAYS, ...size, prefix: value.map(constant), rest }] };
    }
    if (!isJsonObject(value)) return NO_VALUE;
    const properties = new Map(Object.entries(value).map(([name, member]) => [name, constant(member)]));
    const additional = [{ node: document.never, isNegated: false }];
    const layer = { properties, patterns: [], additional, evaluates: false };
    return { ...NO_VALUE, objects: [{ ...ALL_OBJECTS, layers: [layer], required: new Set(properties.keys()) }] };
  });
  return shapes.union(
    {
      ...NO_VALUE,
      constants: new Set(constants),
      numbers: numbers.length > 0 ? [{ isInteger: false, values: numbers }] : [],
      strings: strings.length > 0 ? [{ ...ALL_STRINGS, values: [...new Set(strings)] }] : [],
    },
    ...nested,
  );
}

/** The numbers among some values, one of each value: 1 and 1.0 are one. */
export function distinctNumbers(values: readonly unknown[]): readonly Decimal[] {
  const found = new Map<string, Decimal>();
  for (const value of values) {
    if (!isJsonNumeric(value)) continue;
    const decimal = Decimal.of(value);
    if (!found.has(decimal.key)) found.set(decimal.key, decimal);
  }
  return [...found.values()];
}
