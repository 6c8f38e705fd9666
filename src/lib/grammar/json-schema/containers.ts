import { isObject, type SchemaNode } from './document.js';
import type { Expansion } from './expand.js';
import type { Reading } from './reading.js';
import {
  ALL_OBJECTS,
  ANY_VALUE,
  type ArrayShape,
  type Conjunction,
  type Layer,
  type ObjectShape,
  type Shape,
} from './shape.js';

export const holds = (node: SchemaNode): Conjunction => [{ node, isNegated: false }];
export const fails = (node: SchemaNode): Conjunction => [{ node, isNegated: true }];

/** The schemas of the first items, and of all after them: `prefixItems` and `items`, or `items` and `additionalItems`. */
export function itemSchemas({ node, schema }: Reading, { document }: Expansion) {
  const isTuple = Array.isArray(schema.items);
  const [tuple, after] = isTuple ? ['items', 'additionalItems'] : ['prefixItems', 'items'];
  const given = schema[tuple!] === undefined ? [] : (schema[tuple!] as readonly unknown[]);
  const prefix = given.map((_, index) => document.child(node, tuple!, index));
  return {
    prefix,
    rest: schema[after!] === undefined ? undefined : document.child(node, after!),
    tuple: tuple!,
    after: after!,
  };
}

/** Arrays that the keywords of arrays allow. */
export function arrayShape(reading: Reading, expansion: Expansion): Shape {
  const { node, schema } = reading;
  const { prefix, rest } = itemSchemas(reading, expansion);
  const array: ArrayShape = {
    prefix: prefix.map(holds),
    rest: rest === undefined ? [] : holds(rest),
    min: reading.least('minItems') ?? 0,
    max: reading.count('maxItems') ?? Number.POSITIVE_INFINITY,
    contains: reading.has('contains') ? [containing(reading, expansion)] : [],
    isUnique: schema.uniqueItems === true,
    evaluated: rest === undefined ? prefix.length : Number.POSITIVE_INFINITY,
  };
  const keywords = ['items', 'prefixItems', 'minItems', 'maxItems', 'contains', 'uniqueItems'];
  if (!keywords.some((keyword) => reading.has(keyword))) return ANY_VALUE;
  if (reading.has('contains') && schema.contains === undefined)
    throw reading.wrong('contains', `${node.at} is not a schema`);
  return { ...ANY_VALUE, arrays: [array] };
}

function containing(reading: Reading, { document }: Expansion) {
  const min = reading.least('minContains') ?? 1;
  const max = reading.count('maxContains') ?? Number.POSITIVE_INFINITY;
  return { what: holds(document.child(reading.node, 'contains')), from: 0, min, max };
}

/** `properties`, `patternProperties` and `additionalProperties` of one schema object. */
export function layerOf(reading: Reading, expansion: Expansion): Layer {
  const { node } = reading;
  const { document } = expansion;
  const child = (...path: string[]) => holds(document.child(node, ...path));
  return {
    properties: new Map(Object.keys(reading.map('properties')).map((name) => [name, child('properties', name)])),
    patterns: Object.keys(reading.map('patternProperties')).map((source) => ({
      names: expansion.pattern(reading, source, 'search', 'patternProperties'),
      value: child('patternProperties', source),
    })),
    additional: reading.has('additionalProperties') ? child('additionalProperties') : undefined,
    evaluates: true,
  };
}

/** An object that has, or has not, a property. */
export function withProperty(name: string, value: Conjunction, isRequired: boolean): ObjectShape {
  const layer = { properties: new Map([[name, value]]), patterns: [], additional: undefined, evaluates: false };
  return { ...ALL_OBJECTS, layers: [layer], required: new Set(isRequired ? [name] : []) };
}

/** Conditions that a present property adds: dependentRequired, dependentSchemas and the older dependencies. */
export function dependencies(
  reading: Reading,
  { document }: Expansion,
): { name: string; required: string[]; schema?: SchemaNode }[] {
  const found: { name: string; required: string[]; schema?: SchemaNode }[] = [];
  for (const keyword of ['dependentRequired', 'dependentSchemas', 'dependencies']) {
    for (const [name, value] of Object.entries(reading.map(keyword))) {
      const isNames = Array.isArray(value) && value.every((one) => typeof one === 'string');
      if (isNames) found.push({ name, required: value });
      else if (typeof value === 'boolean' || isObject(value)) {
        found.push({ name, required: [], schema: document.child(reading.node, keyword, name) });
      } else throw reading.wrong(keyword, `what ${JSON.stringify(name)} depends on must be names or a schema`);
    }
  }
  return found;
}

/** Objects that the keywords of objects allow; shapes that hold together. */
export function objectShape(reading: Reading, expansion: Expansion): Shape[] {
  const { document, shapes } = expansion;
  const of = (...objects: ObjectShape[]): Shape => ({ ...ANY_VALUE, objects });
  const found: Shape[] = [];
  const isLayer = ['properties', 'patternProperties', 'additionalProperties'].some((keyword) => reading.has(keyword));
  const required = new Set(reading.names('required'));
  const min = reading.least('minProperties') ?? 0;
  const max = reading.count('maxProperties') ?? Number.POSITIVE_INFINITY;
  if (isLayer || required.size > 0 || min > 0 || max < Number.POSITIVE_INFINITY) {
    found.push(of({ ...ALL_OBJECTS, layers: isLayer ? [layerOf(reading, expansion)] : [], required, min, max }));
  }
  if (reading.has('propertyNames')) {
    const names = expansion.of(document.child(reading.node, 'propertyNames')).strings;
    // One object for each set of names would do for objects whose names are all of one set.
    if (names.length > 1)
      throw reading.unsupported('propertyNames', 'it allows alternatives of names; write one pattern');
    found.push(names.length === 1 ? of({ ...ALL_OBJECTS, names }) : of({ ...ALL_OBJECTS, max: 0 }));
  }
  for (const { name, required: others, schema } of dependencies(reading, expansion)) {
    const absent = withProperty(name, holds(document.never), false);
    const present = { ...ALL_OBJECTS, required: new Set([name, ...others]) };
    const then = shapes.intersection(of(present), schema === undefined ? ANY_VALUE : expansion.of(schema));
    found.push({ ...ANY_VALUE, objects: [absent, ...then.objects] });
  }
  return found;
}
