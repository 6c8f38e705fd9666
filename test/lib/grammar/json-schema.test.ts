import { describe, expect, it } from 'vitest';
import { constraintGrammar } from '../../../src/lib/grammar/constraint-grammar.js';
import { acceptedBy } from '../../support/byte-engine.js';

interface Case {
  readonly says: string;
  readonly schema: unknown;
  readonly valid: readonly string[];
  readonly invalid: readonly string[];
}

const CASES: readonly Case[] = [
  {
    says: '{} is any object, and only that',
    schema: {},
    valid: ['{}', '{"a": [1, null]}'],
    invalid: ['1', '[]', '"a"'],
  },
  { says: 'true inside is any value', schema: { items: true, type: 'array' }, valid: ['[1, "a", {}]'], invalid: ['1'] },
  {
    says: 'properties come in the order of the schema, optional ones may be missing',
    schema: {
      type: 'object',
      properties: { a: { type: 'integer' }, b: { type: 'null' }, c: { const: 'x' } },
      required: ['b'],
      additionalProperties: false,
    },
    valid: ['{"a": 1, "b": null, "c": "x"}', '{"b":null}', '{"b": null,"c": "x"}'],
    invalid: ['{"b": null, "a": 1}', '{"a": 1}', '{}', '{"b": null, "d": 1}', '{"b": null, "b": null}', '{"b": null,}'],
  },
  {
    says: 'a named property cannot come again as another one, however it is written',
    schema: { type: 'object', properties: { a: { type: 'integer' } } },
    valid: ['{"a": 1, "b": "x"}', '{"b": 1}', '{"": 1}', '{"aa": "x"}'],
    invalid: ['{"a": "x"}', '{"a": 1, "a": "x"}', '{"\\u0061": "x"}', '{"a": 1, "\\u0061": "x"}'],
  },
  {
    says: 'patternProperties hold for every name that they match, and named ones too',
    schema: {
      type: 'object',
      properties: { ab: { minimum: 2 } },
      patternProperties: { '^a': { type: 'integer' }, c$: { maximum: 5 } },
      additionalProperties: { type: 'null' },
    },
    valid: ['{"ab": 2}', '{"a": 1, "b": null, "ac": 5, "c": "x"}'],
    invalid: ['{"ab": 1}', '{"ab": "x"}', '{"ac": 6}', '{"ac": "x"}', '{"b": 1}'],
  },
  {
    says: 'white space is none, one space, or a line break and an indent',
    schema: { type: 'object', properties: { a: { type: 'array' } }, additionalProperties: false },
    valid: ['{"a":[1,2]}', '{"a": [1, 2]}', '{\n  "a": [\n    1,\n    2\n  ]\n}'],
    invalid: ['{"a":  []}', '{\n\n"a": []}', `{\n${' '.repeat(21)}"a": []}`, '{"a" : []}', ' {}'],
  },
  {
    says: 'strings are escaped as JSON asks, surrogates only in pairs',
    schema: { type: 'string' },
    valid: ['"é💩"', '"\\u00e9\\ud83d\\udca9\\/\\n"', '"\\"\\\\"'],
    invalid: ['"\n"', '"\\x"', '"\\ud83d"', '"\\udca9\\ud83d"', '"a', '"a"b"'],
  },
  {
    says: 'lengths count characters, not bytes nor escapes',
    schema: { type: 'string', minLength: 2, maxLength: 3 },
    valid: ['"éa"', '"💩💩💩"', '"\\n\\""'],
    invalid: ['"💩"', '"abcd"', '""'],
  },
  {
    says: 'long strings are counted exactly too',
    schema: { type: 'string', minLength: 40, maxLength: 150 },
    valid: [40, 64, 65, 96, 128, 149, 150].map((length) => JSON.stringify('é'.repeat(length))),
    invalid: [0, 39, 151, 160].map((length) => JSON.stringify('é'.repeat(length))),
  },
  {
    says: 'a pattern is found anywhere, and holds together with lengths and other patterns',
    schema: { type: 'string', pattern: 'b+', maxLength: 4, allOf: [{ pattern: '^[^x]*$' }] },
    valid: ['"b"', '"abba"', '"\\"b\\n"'],
    invalid: ['"a"', '"aabba"', '"xb"'],
  },
  {
    says: 'numbers are held to their range by value',
    schema: { type: 'number', minimum: -1.5, exclusiveMaximum: 20 },
    valid: ['-1.5', '-1.50', '-0.3', '0', '19.999', '7', '3.0'],
    invalid: ['-1.51', '-2', '20', '20.0', '1e1', '007', '.5', '5.'],
  },
  {
    says: 'integers have no point',
    schema: { type: 'integer', exclusiveMinimum: -12, maximum: 305 },
    valid: ['-11', '0', '9', '99', '300', '305'],
    invalid: ['-12', '306', '1000', '1.0', '1.5', '01'],
  },
  {
    says: 'multiples are counted digit by digit',
    schema: { type: 'number', multipleOf: 0.25 },
    valid: ['0', '1', '0.25', '-3.5', '12.750'],
    invalid: ['0.2', '0.255', '1.1'],
  },
  {
    says: 'keywords of other types say nothing of a value',
    schema: { minimum: 5, minLength: 2 },
    valid: ['5', '"ab"', 'null', '[]'],
    invalid: ['4', '"a"'],
  },
  {
    says: 'tuples, then the rest',
    schema: {
      type: 'array',
      prefixItems: [{ type: 'integer' }, { type: 'string' }],
      items: { type: 'null' },
      minItems: 1,
      maxItems: 3,
    },
    valid: ['[1]', '[1, "a"]', '[1, "a", null]'],
    invalid: ['[]', '["a"]', '[1, 2]', '[1, "a", null, null]', '[1, "a", 3]'],
  },
  {
    says: 'contains is counted',
    schema: { type: 'array', items: { type: 'integer' }, contains: { minimum: 10 }, minContains: 1, maxContains: 2 },
    valid: ['[10]', '[1, 12, 3]', '[11, 1, 12]'],
    invalid: ['[]', '[1, 2]', '[10, 11, 12]', '[10, "a"]'],
  },
  {
    says: 'allOf holds together, additionalProperties sees only its own',
    schema: {
      type: 'object',
      allOf: [
        { properties: { a: { type: 'integer' } } },
        { properties: { b: true }, additionalProperties: { maximum: 3 } },
      ],
    },
    valid: ['{"a": 2, "b": 9}', '{"c": 3}'],
    invalid: ['{"a": 4}', '{"a": "x"}', '{"c": 4}'],
  },
  {
    says: 'oneOf is one and not two',
    schema: { type: 'object', oneOf: [{ required: ['a'] }, { required: ['b'] }] },
    valid: ['{"a": 1}', '{"b": 1}', '{"a": 1, "c": 2}'],
    invalid: ['{}', '{"a": 1, "b": 1}', '{"c": 1}'],
  },
  {
    says: 'branches of oneOf that a property tells apart need that property',
    schema: {
      required: ['kind', 'size'],
      oneOf: Array.from({ length: 12 }, (_, i) => ({
        type: 'object',
        properties: { kind: { enum: [`kind${i}`] }, size: { type: 'array', minItems: i, maxItems: i + 1 } },
      })),
    },
    valid: ['{"kind": "kind0", "size": []}', '{"kind": "kind2", "size": [1, 2]}'],
    invalid: ['{"kind": "kind0"}', '{"kind": "kind2", "size": []}', '{"size": []}', '{"kind": "kind12", "size": []}'],
  },
  {
    says: 'not is the complement',
    schema: { not: { type: ['string', 'integer'] } },
    valid: ['1.5', 'null', '{}'],
    invalid: ['1', '"a"', '1.0'],
  },
  {
    says: 'not of constants is exact',
    schema: { type: ['string', 'array'], not: { enum: ['a', [1]] } },
    valid: ['"b"', '""', '"aa"', '[]', '[2]', '[1, 1]'],
    invalid: ['"a"', '[1]', '[1.0]'],
  },
  {
    says: 'if, then and else',
    schema: {
      type: 'object',
      properties: { kind: { enum: ['a', 'b'] }, size: { type: 'integer' } },
      required: ['kind'],
      if: { properties: { kind: { const: 'a' } } },
      // biome-ignore lint/suspicious/noThenProperty: it is the keyword
      then: { required: ['size'] },
      else: { properties: { size: false } },
    },
    valid: ['{"kind": "a", "size": 1}', '{"kind": "b"}'],
    invalid: ['{"kind": "a"}', '{"kind": "b", "size": 1}'],
  },
  {
    says: 'what depends on a property',
    schema: {
      type: 'object',
      dependentRequired: { card: ['address'] },
      dependentSchemas: { card: { properties: { address: { type: 'string' } } } },
    },
    valid: ['{}', '{"address": "x", "card": 1}', '{"address": 1}'],
    invalid: ['{"card": 1}', '{"address": 2, "card": 1}'],
  },
  {
    says: 'recursive references',
    schema: {
      $ref: '#/$defs/tree',
      $defs: {
        tree: {
          type: 'object',
          properties: { value: { type: 'integer' }, nodes: { type: 'array', items: { $ref: '#/$defs/tree' } } },
          required: ['value'],
          additionalProperties: false,
        },
      },
    },
    valid: ['{"value": 1}', '{"value": 1, "nodes": [{"value": 2, "nodes": []}, {"value": 3}]}'],
    invalid: ['{"value": 1, "nodes": [{}]}', '{"nodes": []}'],
  },
  {
    says: 'unevaluatedProperties knows what the branch that holds has looked at',
    schema: {
      type: 'object',
      anyOf: [
        { properties: { a: { const: 1 } }, required: ['a'] },
        { properties: { b: { const: 2 } }, required: ['b'] },
      ],
      unevaluatedProperties: false,
    },
    valid: ['{"a": 1}', '{"b": 2}', '{"a": 1, "b": 2}'],
    invalid: ['{"a": 1, "c": 1}', '{"a": 1, "b": 3}', '{"b": 2, "a": 3}'],
  },
  {
    says: 'enum keeps what the other keywords allow',
    schema: { enum: ['a', 'bb', 3, null, { x: [1] }], maxLength: 1 },
    valid: ['"a"', '3', 'null', '{"x": [1]}'],
    invalid: ['"bb"', '3.0', '{"x": [2]}', '{}'],
  },
  {
    says: 'constants that must be unique come once each',
    schema: { type: 'array', items: { enum: ['a', 'b', 1, true] }, uniqueItems: true, minItems: 1, maxItems: 3 },
    valid: ['["a"]', '[true, "b", 1]', '["b", "a"]'],
    invalid: ['[]', '["a", "a"]', '["a", "b", 1, true]', '[1, true, 1]'],
  },
  {
    says: 'known formats are held',
    schema: { type: 'string', format: 'date' },
    valid: ['"2024-02-29"', '"1999-12-31"'],
    invalid: ['"2023-02-29"', '"1999-13-01"', '"today"'],
  },
  {
    says: 'names are held to propertyNames',
    schema: { type: 'object', propertyNames: { pattern: '^[a-z]+$' }, maxProperties: 2 },
    valid: ['{}', '{"ab": 1}', '{"a": 1, "b": 2}'],
    invalid: ['{"A": 1}', '{"": 1}', '{"a": 1, "b": 2, "c": 3}'],
  },
  {
    says: 'classes beyond ASCII are read as characters',
    schema: { type: 'string', pattern: '^[à-öЖ💩]+\\p{Lu}$' },
    valid: ['"éЖ💩Ü"', '"àA"'],
    invalid: ['"é"', '"aA"', '"÷A"', '"éa"'],
  },
];

describe('a JSON Schema as a grammar', () => {
  for (const { says, schema, valid, invalid } of CASES) {
    it(says, async () => {
      const grammar = constraintGrammar({ $case: 'jsonSchema', value: JSON.stringify(schema) });
      expect(await acceptedBy(grammar, [...valid, ...invalid])).toEqual(valid);
    });
  }
});
