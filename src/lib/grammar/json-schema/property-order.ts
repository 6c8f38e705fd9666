import type { SchemaDocument, SchemaNode } from './document.js';

/**
 * The schemas themselves and all they apply to the same value: of each, those of `$ref`, `allOf`, `anyOf`, `oneOf`, `not`, `if`,
 * `then`, `else` and the dependent ones follow it.
 */
export function inPlace(nodes: readonly SchemaNode[], document: SchemaDocument): SchemaNode[] {
  const seen = new Set<SchemaNode>();
  const visit = (node: SchemaNode) => {
    if (typeof node.schema === 'boolean' || seen.has(node)) return;
    seen.add(node);
    const { schema } = node;
    for (const keyword of ['$ref', '$dynamicRef'] as const) {
      if (typeof schema[keyword] === 'string') visit(document.target(node, keyword));
    }
    for (const keyword of ['allOf', 'anyOf', 'oneOf']) {
      for (const index of keys(schema[keyword])) visit(document.child(node, keyword, Number(index)));
    }
    for (const keyword of ['not', 'if', 'then', 'else']) {
      if (schema[keyword] !== undefined) visit(document.child(node, keyword));
    }
    for (const keyword of ['dependentSchemas', 'dependencies']) {
      for (const name of keys(schema[keyword])) {
        const value = (schema[keyword] as Readonly<Record<string, unknown>>)[name];
        if (!Array.isArray(value)) visit(document.child(node, keyword, name));
      }
    }
  };
  for (const node of nodes) visit(node);
  return [...seen];
}

/** The names of an object's properties, in the order in which the schemas of {@link inPlace} first list or require them. */
export function propertyOrder(nodes: readonly SchemaNode[], document: SchemaDocument): readonly string[] {
  const schemas = inPlace(nodes, document).map(({ schema }) => schema as Readonly<Record<string, unknown>>);
  const listed = schemas.flatMap(({ properties }) => keys(properties));
  const required = schemas.flatMap((schema) => (Array.isArray(schema.required) ? schema.required.map(String) : []));
  const dependent = schemas.flatMap((schema) =>
    [schema.dependentRequired, schema.dependentSchemas, schema.dependencies].flatMap((value) =>
      keys(value).flatMap((name) => [name, ...Object.values((value as Readonly<Record<string, unknown>>)[name] ?? {})]),
    ),
  );
  return [...new Set([...listed, ...required, ...dependent.filter((name) => typeof name === 'string')])];
}

const keys = (value: unknown) => (typeof value === 'object' && value !== null ? Object.keys(value) : []);
