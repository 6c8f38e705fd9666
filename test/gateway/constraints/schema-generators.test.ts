import { describe, expect, it } from 'vitest';
import { grammarOf } from '../../../src/gateway/constraints/grammar-of.js';
import { acceptedBy } from '../../support/byte-engine.js';

type Case = readonly [generator: string, schema: object, valid: readonly string[], invalid: readonly string[]];

/** Schemas that generators write around one small object: each with an answer that it allows, and one that it does not. */
const CASES: readonly Case[] = [
  [
    'Pydantic v2',
    {
      $defs: { Unit: { enum: ['C', 'F'], title: 'Unit', type: 'string' } },
      properties: {
        unit: { $ref: '#/$defs/Unit', default: 'C', description: 'd' },
        days: { anyOf: [{ exclusiveMinimum: 0, type: 'integer' }, { type: 'null' }], default: null, title: 'Days' },
      },
      required: ['days'],
      title: 'Look',
      type: 'object',
      additionalProperties: false,
    },
    ['{"unit": "C", "days": 2}', '{"days": null}'],
    ['{"unit": "K", "days": 2}', '{"days": 0}'],
  ],
  [
    'zod 3 by zod-to-json-schema',
    {
      $schema: 'http://json-schema.org/draft-07/schema#',
      type: 'object',
      properties: {
        unit: { type: 'string', enum: ['C', 'F'] },
        days: { type: ['integer', 'null'], exclusiveMinimum: 0, markdownDescription: 'd' },
      },
      required: ['unit', 'days'],
      additionalProperties: false,
    },
    ['{"unit": "C", "days": 2}', '{"unit": "F", "days": null}'],
    ['{"unit": "C", "days": 0}'],
  ],
  [
    'zod 3 for OpenAPI 3.0',
    {
      type: 'object',
      properties: { days: { type: 'integer', minimum: 0, exclusiveMinimum: true, nullable: true } },
      required: ['days'],
      additionalProperties: false,
    },
    ['{"days": 1}', '{"days": null}'],
    ['{"days": 0}'],
  ],
  [
    'zod 4 by toJSONSchema',
    {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'object',
      properties: {
        days: { type: 'integer', minimum: -9007199254740991, maximum: 9007199254740991 },
        note: { anyOf: [{ type: 'string', maxLength: 3 }, { type: 'null' }] },
      },
      required: ['days', 'note'],
      additionalProperties: false,
    },
    ['{"days": 9007199254740991, "note": null}', '{"days": 0, "note": "abc"}'],
    ['{"days": 9007199254740992, "note": null}', '{"days": 0, "note": "abcd"}'],
  ],
  [
    'FastMCP of an OpenAPI document',
    {
      type: 'object',
      properties: {
        id: { type: 'integer', nullable: true, minimum: 1, example: 5, 'x-order': 1, xml: { name: 'id' } },
        kind: { allOf: [{ $ref: '#/$defs/Kind' }], nullable: true, deprecated: true, readOnly: true },
      },
      required: ['id', 'kind'],
      additionalProperties: false,
      $defs: { Kind: { type: 'string', enum: ['a', 'b'], externalDocs: { url: 'https://example.com' } } },
      discriminator: { propertyName: 'kind' },
    },
    ['{"id": 1, "kind": "a"}', '{"id": null, "kind": "b"}'],
    ['{"id": 0, "kind": "a"}', '{"id": 1, "kind": null}'],
  ],
  [
    'Gemini',
    {
      type: 'object',
      propertyOrdering: ['b', 'a'],
      properties: { a: { type: 'string', format: 'enum', enum: ['x'] }, b: { type: 'number', nullable: true } },
      required: ['a', 'b'],
      additionalProperties: false,
    },
    ['{"a": "x", "b": null}', '{"a": "x", "b": 1.5}'],
    ['{"a": null, "b": 1}'],
  ],
  [
    'a form: react-jsonschema-form and unknown annotations',
    {
      type: 'object',
      'ui:order': ['a'],
      properties: { a: { const: 1, optional: false, 'ui:widget': 'updown', order: 3, $comment: 'c', examples: [1] } },
      required: ['a'],
      additionalProperties: false,
    },
    ['{"a": 1}'],
    ['{"a": 2}'],
  ],
];

describe.each(CASES)('the schema of %s', (_generator, schema, valid, invalid) => {
  it('is taken for an answer', async () => {
    const grammar = grammarOf({ $case: 'jsonSchema', value: JSON.stringify(schema) });
    expect(await acceptedBy(grammar, [...valid, ...invalid])).toEqual(valid);
  });

  it('is taken for a call', async () => {
    const [prefix, suffix] = ['<call>', '</call>'];
    const tool = { name: 'f', argumentsRule: 'a', parametersJson: JSON.stringify(schema), prefix, suffix };
    const calls = {
      ...{ prefix: '', separator: '', suffix: '', tools: [tool], argumentsForm: 'json' as const },
      ...{ isRequired: true, isRepeated: false },
    };
    const grammar = grammarOf({ $case: 'toolCalls', value: { calls, openers: [], isBare: false } });
    const text = (value: string) => `${prefix}${value}${suffix}`;
    expect(await acceptedBy(grammar, [...valid, ...invalid].map(text))).toEqual(valid.map(text));
  });
});

describe('a keyword that is not enforced', () => {
  const refused =
    (keyword: string, value: unknown = 1) =>
    () =>
      grammarOf({ $case: 'jsonSchema', value: JSON.stringify({ type: 'object', [keyword]: value }) });

  it.each(['divisibleBy', 'disallow', 'extends', 'formatMinimum', 'instanceof', '$recursiveRef', 'optionalProperties'])(
    'is refused where another dialect restricts values with it: %s',
    (keyword) => {
      expect(refused(keyword)).toThrow(
        expect.objectContaining({ reason: 'CONSTRAINT_UNSUPPORTED', metadata: expect.objectContaining({ keyword }) }),
      );
    },
  );

  it.each([
    ['minimun', 'minimum'],
    ['additionalproperties', 'additionalProperties'],
    ['requird', 'required'],
    ['minLenght', 'minLength'],
  ])('is refused where it is a misspelling: %s', (keyword, meant) => {
    expect(refused(keyword)).toThrow(`write ${meant}`);
  });

  it.each(['name', 'order', '_format', 'x-pattern', 'ui:title', 'titleMap', 'constant'])(
    'is ignored else: %s',
    (keyword) => {
      expect(refused(keyword)).not.toThrow();
    },
  );
});
