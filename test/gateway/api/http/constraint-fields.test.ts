import { expect, it } from 'vitest';
import { constraintOf } from '../../../../src/gateway/api/http/constraint-fields.js';
import { Fields } from '../../../../src/gateway/api/http/fields.js';

const schema = { type: 'object', properties: { at: { type: 'string' } } };
const ofSchema = (value: object) => ({ kind: { $case: 'jsonSchema', value: JSON.stringify(value) } });

it.each([
  [{}, undefined],
  [{ response_format: { type: 'text' } }, undefined],
  [{ grammar: '' }, undefined],
  [{ response_format: { type: 'json_object' } }, ofSchema({ type: 'object' })],
  [{ response_format: { type: 'json_object', schema } }, ofSchema(schema)],
  [{ response_format: { type: 'json_schema', json_schema: { name: 'x', strict: true, schema } } }, ofSchema(schema)],
  [{ json_schema: schema }, ofSchema(schema)],
  [{ grammar: 'root ::= "a"' }, { kind: { $case: 'grammar', value: 'root ::= "a"' } }],
])('%j is the constraint %j', (body, constraint) => {
  expect(constraintOf(new Fields(body))).toEqual(constraint);
});

it.each([
  [{ response_format: { type: 'sound' } }, 'response_format.type'],
  [{ response_format: {} }, 'response_format.type'],
  [{ response_format: { type: 'json_object', schema: 123 } }, 'response_format.schema'],
  [{ response_format: { type: 'json_schema' } }, 'response_format.json_schema'],
  [{ response_format: { type: 'json_schema', json_schema: {} } }, 'response_format.json_schema.schema'],
  [{ response_format: { type: 'text', schema } }, 'response_format.schema'],
  [{ json_schema: schema, grammar: 'root ::= "a"' }, 'grammar'],
])('%j is refused by the name of %s', (body, field) => {
  expect(() => constraintOf(new Fields(body))).toThrow(expect.objectContaining({ metadata: { field } }));
});
