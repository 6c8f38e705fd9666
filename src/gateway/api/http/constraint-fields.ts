import type { Constraint } from '../../../shared/generated/rocmforge/v1/inference.js';
import type { Fields } from './fields.js';

/** Any JSON object. */
const ANY_OBJECT = '{"type":"object"}';

/**
 * Constraint on the text: OpenAI's `response_format`, llama.cpp's `grammar` and `json_schema`. The core says which schemas
 * and grammars it takes.
 */
export function constraintOf(fields: Fields): Constraint | undefined {
  const asked = [
    ['response_format', formatOf(fields)],
    ['json_schema', schemaOf(fields, 'json_schema')],
    ['grammar', grammarOf(fields)],
    ...guidedOf(fields),
  ] as const;
  const given = asked.filter(([, constraint]) => constraint !== undefined);
  const [first, second] = given;
  if (first !== undefined && second !== undefined) {
    return fields.refuse(second[0], `cannot be combined with ${first[0]}; send one of them`);
  }
  if (first !== undefined) fields.standsFor('constraint', first[0]);
  return first?.[1];
}

type Named = readonly [name: string, constraint: Constraint | undefined];

/** vLLM's `structured_outputs`, and the fields that it had before. */
function guidedOf(fields: Fields): readonly Named[] {
  fields.ignore('guided_decoding_backend', 'guided_whitespace_pattern');
  const outputs = fields.object('structured_outputs');
  if (outputs === undefined) return guidedIn(fields, 'guided_');
  const guided = guidedIn(outputs, '').filter(([, constraint]) => constraint !== undefined);
  const isObject = outputs.boolean('json_object') ?? false;
  if (outputs.has('structural_tag')) outputs.unsupported('structural_tag');
  outputs.ignore('structural_tag', 'disable_fallback', 'disable_any_whitespace', 'whitespace_pattern');
  outputs.ignore('disable_additional_properties');
  outputs.end();
  const [first, second] = guided;
  if (second !== undefined) outputs.refuse(second[0], `cannot be combined with ${first?.[0]}; send one of them`);
  return [
    ...guidedIn(fields, 'guided_'),
    ['structured_outputs', first?.[1] ?? (isObject ? { kind: { $case: 'jsonSchema', value: ANY_OBJECT } } : undefined)],
  ];
}

function guidedIn(fields: Fields, prefix: string): readonly Named[] {
  const json = `${prefix}json`;
  const [regex, grammar] = [fields.string(`${prefix}regex`), fields.string(`${prefix}grammar`)];
  const options = fields.strings(`${prefix}choice`);
  return [
    [json, typeof fields.any(json) === 'string' ? schemaText(fields, json) : schemaOf(fields, json)],
    [`${prefix}regex`, regex === undefined ? undefined : { kind: { $case: 'regex', value: regex } }],
    [`${prefix}grammar`, grammar === undefined ? undefined : { kind: { $case: 'grammar', value: grammar } }],
    [`${prefix}choice`, options && { kind: { $case: 'choice', value: { options: [...options] } } }],
  ];
}

/** A schema that is written as a text of JSON. */
function schemaText(fields: Fields, name: string): Constraint | undefined {
  const value = fields.string(name);
  return value === undefined ? undefined : { kind: { $case: 'jsonSchema', value } };
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
    // Text Generation Inference's names.
    case 'json':
    case 'regex':
      return guidedOfInference(type, format);
    case 'json_schema': {
      const named = format.object('json_schema') ?? format.refuse('json_schema', 'is missing');
      const schema = schemaOf(named, 'schema') ?? named.refuse('schema', 'is missing');
      named.ignore('name', 'description', 'strict');
      named.end();
      return schema;
    }
    default:
      return format.refuse('type', 'must be "text", "json_object" or "json_schema"');
  }
}

function guidedOfInference(type: 'json' | 'regex', format: Fields): Constraint | undefined {
  if (type === 'json') return schemaOf(format, 'value') ?? format.refuse('value', 'is missing');
  const value = format.string('value') ?? format.refuse('value', 'is missing');
  return { kind: { $case: 'regex', value } };
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
