import { isJsonObject } from '../../json/exact-json.js';
import { dependencies, fails, holds, itemSchemas, layerOf, withProperty } from './containers.js';
import type { Expansion } from './expand.js';
import type { Reading } from './reading.js';
import { distinctNumbers, numberSets, stringSets, typeShape } from './scalars.js';
import { ALL_ARRAYS, ALL_OBJECTS, type ArrayShape, NO_VALUE, type ObjectShape, type Shape } from './shape.js';

const MOST = Number.POSITIVE_INFINITY;

/** The values that a schema does not allow: those that at least one of its keywords does not. */
export function negated(reading: Reading, expansion: Expansion): Shape {
  const { document, shapes } = expansion;
  const { node } = reading;
  for (const keyword of ['uniqueItems', 'unevaluatedItems', 'unevaluatedProperties']) {
    if (reading.has(keyword) && reading.schema[keyword] !== false) throw negation(reading, keyword);
  }
  if (stringSets(reading, expansion).some(({ keyword }) => keyword === 'format')) throw negation(reading, 'format');
  const parts: Shape[] = [notTyped(reading, expansion), notConstant(reading, expansion)];
  const numbers = numberSets(reading, expansion).map(({ set }) => expansion.numbers.not(set));
  const strings = stringSets(reading, expansion).flatMap(({ set }) => shapes.notStrings(set));
  parts.push({ ...NO_VALUE, numbers, strings });
  parts.push({ ...NO_VALUE, arrays: notArrays(reading, expansion) });
  parts.push({ ...NO_VALUE, objects: notObjects(reading, expansion) });
  parts.push(...notDependent(reading, expansion));
  for (const keyword of ['$ref', '$dynamicRef'] as const) {
    if (reading.has(keyword)) parts.push(expansion.not(document.target(node, keyword)));
  }
  parts.push(...expansion.branches(reading, 'allOf').map((branch) => expansion.not(branch)));
  if (reading.has('anyOf')) {
    parts.push(shapes.intersection(...expansion.branches(reading, 'anyOf').map((branch) => expansion.not(branch))));
  }
  if (reading.has('oneOf')) parts.push(notOneOf(reading, expansion));
  if (reading.has('not')) parts.push(expansion.of(document.child(node, 'not')));
  if (reading.has('if')) {
    const condition = document.child(node, 'if');
    const not = (keyword: 'then' | 'else') =>
      reading.has(keyword) ? expansion.not(document.child(node, keyword)) : NO_VALUE;
    parts.push(shapes.intersection(expansion.of(condition), not('then')));
    parts.push(shapes.intersection(expansion.not(condition), not('else')));
  }
  return shapes.union(NO_VALUE, ...parts);
}

const negation = (reading: Reading, keyword: string) =>
  reading.unsupported(keyword, `${keyword} must not hold here, which no grammar of ours says exactly`);

function notTyped(reading: Reading, expansion: Expansion): Shape {
  if (!reading.has('type')) return NO_VALUE;
  const { constants, numbers, strings, arrays, objects } = typeShape(reading, expansion);
  const isInteger = numbers.length > 0 && numbers.every((set) => set.isInteger);
  return {
    constants: new Set([null, true, false].filter((constant) => !constants.has(constant))),
    numbers:
      numbers.length === 0 ? [{ isInteger: false }] : isInteger ? [expansion.numbers.not({ isInteger: true })] : [],
    strings: strings.length === 0 ? [{ min: 0, max: MOST }] : [],
    arrays: arrays.length === 0 ? [ALL_ARRAYS] : [],
    objects: objects.length === 0 ? [ALL_OBJECTS] : [],
  };
}

function notConstant(reading: Reading, expansion: Expansion): Shape {
  const { document, shapes, numbers } = expansion;
  const { node } = reading;
  const not = (values: readonly unknown[]): Shape => {
    const distinct = distinctNumbers(values);
    const listed = numbers.not({ isInteger: false, values: distinct });
    const strings = values.filter((value) => typeof value === 'string');
    const scalars: Shape = {
      constants: new Set([null, true, false].filter((constant) => !values.includes(constant))),
      numbers: distinct.length > 0 ? [listed] : [{ isInteger: false }],
      strings: strings.length > 0 ? shapes.notStrings({ min: 0, max: MOST, values: strings }) : [{ min: 0, max: MOST }],
      arrays: [ALL_ARRAYS],
      objects: [ALL_OBJECTS],
    };
    const constant = (value: unknown) => fails(document.make({ const: value }, node));
    const nested = values
      .filter((value) => Array.isArray(value) || isJsonObject(value))
      .map((value): Shape => {
        if (Array.isArray(value)) return { ...scalars, arrays: otherArrays(value, constant) };
        return { ...scalars, objects: otherObjects(value, constant, expansion) };
      });
    return shapes.intersection(scalars, ...nested);
  };
  return shapes.union(
    NO_VALUE,
    ...(reading.has('const') ? [not([reading.schema.const])] : []),
    ...(reading.has('enum') ? [not(reading.list('enum'))] : []),
  );
}

/** Shorter, longer, or another item somewhere. */
function otherArrays(value: readonly unknown[], constant: (value: unknown) => ReturnType<typeof fails>): ArrayShape[] {
  const others: ArrayShape[] = [{ ...ALL_ARRAYS, min: value.length + 1 }];
  if (value.length > 0) others.push({ ...ALL_ARRAYS, max: value.length - 1 });
  value.forEach((item, index) => {
    const prefix = [...Array.from({ length: index }, () => []), constant(item)];
    others.push({ ...ALL_ARRAYS, prefix, min: index + 1 });
  });
  return others;
}

/** A property is missing, differs, or there is one more. */
function otherObjects(
  value: Readonly<Record<string, unknown>>,
  constant: (value: unknown) => ReturnType<typeof fails>,
  { document }: Expansion,
): ObjectShape[] {
  const names = Object.keys(value);
  return [
    { ...ALL_OBJECTS, required: new Set(names), min: names.length + 1 },
    ...names.flatMap((name) => [
      withProperty(name, holds(document.never), false),
      withProperty(name, constant(value[name]), true),
    ]),
  ];
}

function notArrays(reading: Reading, expansion: Expansion): ArrayShape[] {
  const { document } = expansion;
  const found: ArrayShape[] = [];
  const { prefix, rest } = itemSchemas(reading, expansion);
  prefix.forEach((item, index) => {
    found.push({ ...ALL_ARRAYS, prefix: [...prefix.slice(0, index).map(() => []), fails(item)], min: index + 1 });
  });
  if (rest !== undefined && rest !== document.always) {
    const exists = { what: fails(rest), from: prefix.length, min: 1, max: MOST };
    found.push({ ...ALL_ARRAYS, contains: [exists], min: prefix.length + 1 });
  }
  const min = reading.least('minItems');
  if (min !== undefined && min > 0) found.push({ ...ALL_ARRAYS, max: min - 1 });
  const max = reading.least('maxItems');
  if (max !== undefined) found.push({ ...ALL_ARRAYS, min: max + 1 });
  if (!reading.has('contains')) return found;
  const what = holds(document.child(reading.node, 'contains'));
  const least = reading.least('minContains') ?? 1;
  if (least > 0) found.push({ ...ALL_ARRAYS, contains: [{ what, from: 0, min: 0, max: least - 1 }] });
  const most = reading.least('maxContains');
  if (most !== undefined) found.push({ ...ALL_ARRAYS, contains: [{ what, from: 0, min: most + 1, max: MOST }] });
  return found;
}

function notObjects(reading: Reading, expansion: Expansion): ObjectShape[] {
  const { document, automata, shapes } = expansion;
  const found: ObjectShape[] = [];
  const layer = layerOf(reading, expansion);
  const child = (...path: string[]) => document.child(reading.node, ...path);
  for (const name of layer.properties.keys()) {
    const property = child('properties', name);
    if (property !== document.always) found.push(withProperty(name, fails(property), true));
  }
  for (const name of reading.names('required')) found.push(withProperty(name, holds(document.never), false));
  Object.keys(reading.map('patternProperties')).forEach((source, index) => {
    const value = fails(child('patternProperties', source));
    found.push({ ...ALL_OBJECTS, exists: [{ names: layer.patterns[index]!.names, value }] });
  });
  if (reading.has('additionalProperties') && child('additionalProperties') !== document.always) {
    const named = [automata.texts([...layer.properties.keys()]), ...layer.patterns.map(({ names }) => names)];
    const names = automata.not(named.reduce((a, b) => automata.either(a, b)));
    found.push({ ...ALL_OBJECTS, exists: [{ names, value: fails(child('additionalProperties')) }] });
  }
  if (reading.has('propertyNames')) {
    for (const set of expansion.not(child('propertyNames')).strings) {
      found.push({ ...ALL_OBJECTS, exists: [{ names: shapes.automatonOf(set), value: [] }] });
    }
  }
  const min = reading.least('minProperties');
  if (min !== undefined && min > 0) found.push({ ...ALL_OBJECTS, max: min - 1 });
  const max = reading.least('maxProperties');
  if (max !== undefined) found.push({ ...ALL_OBJECTS, min: max + 1 });
  return found;
}

/** The property is there and what depends on it does not hold. */
function notDependent(reading: Reading, expansion: Expansion): Shape[] {
  const { document, shapes } = expansion;
  return dependencies(reading, expansion).flatMap(({ name, required, schema }) => {
    const present: Shape = { ...NO_VALUE, objects: [{ ...ALL_OBJECTS, required: new Set([name]) }] };
    const missing = required.map((other) => withProperty(other, holds(document.never), false));
    const found = [shapes.intersection(present, { ...NO_VALUE, objects: missing })];
    if (schema !== undefined) found.push(shapes.intersection(present, expansion.not(schema)));
    return found;
  });
}

/** None holds, or two do. */
function notOneOf(reading: Reading, expansion: Expansion): Shape {
  const { shapes } = expansion;
  const branches = expansion.branches(reading, 'oneOf');
  const pairs = branches.flatMap((a, index) => branches.slice(index + 1).map((b) => [a, b] as const));
  return shapes.union(
    shapes.intersection(...branches.map((branch) => expansion.not(branch))),
    ...pairs.map(([a, b]) => shapes.intersection(expansion.of(a), expansion.of(b))),
  );
}
