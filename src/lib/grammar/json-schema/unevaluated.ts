import type { Automaton } from '../automata.js';
import { holds } from './containers.js';
import type { Expansion } from './expand.js';
import type { Reading } from './reading.js';
import { ALL_ARRAYS, type ArrayShape, type Conjunction, type Layer, type ObjectShape, type Shape } from './shape.js';

/** The shape with unevaluatedProperties and unevaluatedItems: each alternative knows what its keywords have looked at. */
export function withUnevaluated(reading: Reading, shape: Shape, { document, shapes }: Expansion): Shape {
  let found = shape;
  if (reading.has('unevaluatedProperties')) {
    const rest = holds(document.child(reading.node, 'unevaluatedProperties'));
    found = { ...found, objects: found.objects.map((object) => withRest(object, rest)) };
  }
  if (reading.has('unevaluatedItems')) {
    const rest = holds(document.child(reading.node, 'unevaluatedItems'));
    const arrays = found.arrays.flatMap((array) => {
      if (array.contains.length > 0 && Number.isFinite(array.evaluated)) {
        throw reading.unsupported(
          'unevaluatedItems',
          'beside contains, which items are evaluated depends on the items',
        );
      }
      return shapes.intersection({ ...found, arrays: [array] }, { ...found, arrays: [restOf(array, rest)] }).arrays;
    });
    found = { ...found, arrays };
  }
  return found;
}

function withRest(object: ObjectShape, rest: Conjunction): ObjectShape {
  const evaluated = object.layers.filter(({ evaluates }) => evaluates);
  if (evaluated.some(({ additional }) => additional !== undefined)) return object;
  const names = evaluated.flatMap(({ properties }) => [...properties.keys()]);
  const patterns = evaluated.flatMap((layer) =>
    layer.patterns.map((pattern): { names: Automaton; value: Conjunction } => ({ ...pattern, value: [] })),
  );
  const properties = new Map(names.map((name): [string, Conjunction] => [name, []]));
  const layer: Layer = { properties, patterns, additional: rest, evaluates: true };
  return { ...object, layers: [...object.layers, layer] };
}

function restOf({ evaluated }: ArrayShape, rest: Conjunction): ArrayShape {
  if (!Number.isFinite(evaluated)) return { ...ALL_ARRAYS, evaluated };
  return {
    ...ALL_ARRAYS,
    prefix: Array.from({ length: evaluated }, () => []),
    rest,
    evaluated: Number.POSITIVE_INFINITY,
  };
}
