import type { Constraint } from '../../../shared/generated/rocmforge/v1/inference.js';
import type { Fields } from './fields.js';

/** Any JSON object. */
const ANY_OBJECT = '{"type":"object"}';

/**
 * What the text must be: OpenAI's `response_format`, llama.cpp's `grammar` and `json_schema`. The core says which schemas
 * and grammars it takes.
 */
export function constraintOf(fields: Fields): Constraint | undefined {
  const asked = [
    ['response_format', formatOf(fields)],
    ['json_schema', schemaOf(fields, 'json_schema')],
    ['grammar', grammarOf(fields)],
  ] as const;
  const given = asked.filter(([, constraint]) => constraint !== undefined);
  const [first, second] = given;
  if (first !== undefined && second !== undefined) {
    return fields.refuse(second[0], `is there beside ${first[0]}; send one of them`);
  }
  return first?.[1];
}

function formatOf(fields: Fields): Constraint | undefined {
  const format = fields.object('response_format');
  if (format === undefined) return undefined;
  const type = format.string('type');
  const constraint = constraintOfFormat(type, format);
  format.end();
  return constraint;
}

function constraintOfFormat(type: string | undefined, format: Fields): Constraint | undefined {
  switch (type) {
    case 'text':
      return undefined;
    case 'json_object':
      // llama.cpp takes a schema here, too.
      return schemaOf(format, 'schema') ?? { kind: { $case: 'jsonSchema', value: ANY_OBJECT } };
    case 'json_schema': {
      const named = format.object('json_schema') ?? format.refuse('json_schema', 'is missing');
      const schema = schemaOf(named, 'schema') ?? named.refuse('schema', 'is missing');
      named.ignore('name', 'description', 'strict');
      named.end();
      return schema;
    }
    default:
      return format.refuse('type', 'is taken with "text", "json_object" or "json_schema" alone');
  }
}

function schemaOf(fields: Fields, name: string): Constraint | undefined {
  const value = fields.objectText(name, 'a JSON Schema, an object');
  return value === undefined ? undefined : { kind: { $case: 'jsonSchema', value } };
}

function grammarOf(fields: Fields): Constraint | undefined {
  const grammar = fields.string('grammar');
  // An empty one is llama.cpp's word for none.
  return grammar === undefined || grammar === '' ? undefined : { kind: { $case: 'grammar', value: grammar } };
}
