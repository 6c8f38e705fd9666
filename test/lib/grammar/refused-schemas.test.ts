import { describe, expect, it } from 'vitest';
import { constraintGrammar } from '../../../src/lib/grammar/constraint-grammar.js';
import { GrammarError } from '../../../src/lib/grammar/refusal.js';

function refusalOf(value: string): { reason: string; at?: string | undefined; keyword?: string | undefined } {
  try {
    constraintGrammar({ $case: 'jsonSchema', value });
  } catch (error) {
    if (!(error instanceof GrammarError)) throw error;
    return { reason: error.reason, at: error.metadata.at, keyword: error.metadata.keyword };
  }
  return { reason: 'none' };
}

const nested = (depth: number) => `${'{"items":'.repeat(depth)}{}${'}'.repeat(depth)}`;

it('names the values that its metaschema allows', () => {
  const given = () => constraintGrammar({ $case: 'jsonSchema', value: '{"properties":{"a":{"type":"strng"}}}' });
  expect(given).toThrow(
    /\/properties\/a\/type.*one of the allowed values: array, boolean, integer, null, number, object, string/,
  );
});

describe('a schema that is refused', () => {
  const unsupported: [string, unknown, string, string][] = [
    ['a keyword nobody knows', { properties: { a: { requird: ['x'] } } }, '/properties/a/requird', 'requird'],
    ['a reference to elsewhere', { $ref: 'https://example.com/a.json' }, '/$ref', '$ref'],
    ['unique items', { type: 'array', uniqueItems: true }, '/uniqueItems', 'uniqueItems'],
    ['a divisor of too many remainders', { multipleOf: 0.0001234 }, '/multipleOf', 'multipleOf'],
    ['a look-behind in a pattern', { pattern: '(?<=a)b' }, '/pattern', 'pattern'],
    [
      'a back-reference in a name',
      { patternProperties: { '(a)\\1': true } },
      '/patternProperties',
      'patternProperties',
    ],
    ['properties that free names must bring', { type: 'object', minProperties: 3 }, '/minProperties', 'minProperties'],
    ['a format that must not hold', { not: { format: 'date' } }, '/not/format', 'format'],
    ['a dialect we do not know', { $schema: 'https://example.com/draft' }, '/$schema', '$schema'],
    [
      'a keyword beside $ref where drafts ignored it',
      {
        $schema: 'http://json-schema.org/draft-07/schema#',
        properties: { a: { $ref: '#/definitions/b', maxItems: 3 } },
        definitions: { b: {} },
      },
      '/properties/a/maxItems',
      'maxItems',
    ],
    ['an array longer than we count', { type: 'array', minItems: 20_000 }, '/minItems', 'minItems'],
    [
      'a reference that is its own meaning',
      { $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/a' } } },
      '/$defs/a/$ref',
      '$ref',
    ],
  ];
  for (const [what, schema, at, keyword] of unsupported) {
    it(`names ${what}`, () => {
      expect(refusalOf(JSON.stringify(schema))).toEqual({ reason: 'CONSTRAINT_UNSUPPORTED', at, keyword });
    });
  }

  const invalid: [string, string, string][] = [
    ['no JSON', '{"type": ', ''],
    ['no schema', '[]', ''],
    ['a wrong type', '{"properties": {"a": {"type": "text"}}}', '/properties/a/type'],
    ['a reference to nowhere', '{"$ref": "#/$defs/a"}', '/$ref'],
    ['wrong syntax in a pattern', '{"pattern": "(a"}', '/pattern'],
    ['what nothing satisfies', '{"type": "string", "enum": [1]}', ''],
    ['what can never be finished', '{"type": "array", "minItems": 1, "items": {"$ref": "#"}}', ''],
  ];
  for (const [what, schema, at] of invalid) {
    it(`is invalid as ${what}`, () => {
      expect(refusalOf(schema)).toMatchObject({ reason: 'CONSTRAINT_INVALID', at });
    });
  }
});

describe('a hostile schema is refused before it costs much', () => {
  const hostile: [string, string][] = [
    ['nested a hundred thousand deep', `${'['.repeat(100_000)}${']'.repeat(100_000)}`],
    ['schemas nested too deep', nested(70)],
    ['longer than the limit', JSON.stringify({ description: 'x'.repeat(300_000) })],
    [
      'alternatives that multiply',
      JSON.stringify({
        allOf: Array.from({ length: 12 }, (_, group) => ({
          anyOf: Array.from({ length: 6 }, (_unused, index) => ({ required: [`p${group}-${index}`] })),
        })),
      }),
    ],
    [
      'a reference to a reference, thousands of times',
      JSON.stringify({
        $ref: '#/$defs/a0',
        $defs: Object.fromEntries(Array.from({ length: 5000 }, (_, at) => [`a${at}`, { $ref: `#/$defs/a${at + 1}` }])),
      }),
    ],
    ['more constants than the limit', JSON.stringify({ enum: Array.from({ length: 40_000 }, (_, at) => at) })],
    ['more branches than the limit', JSON.stringify({ allOf: Array.from({ length: 80_000 }, () => ({})) })],
    ['a pattern of exponentially many states', JSON.stringify({ pattern: '^(a|b)*a(a|b){20}$' })],
    ['counts in one another', JSON.stringify({ pattern: '^((a{100}){100}){100}$' })],
    [
      'a thousand patterns that must all hold',
      JSON.stringify({
        allOf: Array.from({ length: 1000 }, (_, index) => ({ pattern: `a.{${index % 40}}b` })),
      }),
    ],
  ];
  for (const [what, schema] of hostile) {
    it(what, () => {
      expect(refusalOf(schema).reason).toMatch(/^CONSTRAINT_/);
    });
  }
});

describe('a schema that is large and means little is taken', () => {
  const large: [string, unknown][] = [
    [
      'thousands of properties',
      {
        type: 'object',
        properties: Object.fromEntries(Array.from({ length: 3000 }, (_, at) => [`a${at}`, true])),
        additionalProperties: false,
      },
    ],
    [
      'values in one another by thousands of references',
      {
        $ref: '#/$defs/a0',
        $defs: Object.fromEntries(
          Array.from({ length: 3000 }, (_, at) => [
            `a${at}`,
            { type: 'array', items: at === 2999 ? {} : { $ref: `#/$defs/a${at + 1}` } },
          ]),
        ),
      },
    ],
    [
      'many long arrays',
      { type: 'array', prefixItems: Array.from({ length: 10 }, (_, at) => ({ type: 'array', minItems: 9000 + at })) },
    ],
    ['a long pattern', { pattern: `^${'ab'.repeat(1200)}$` }],
  ];
  for (const [what, schema] of large) {
    it(what, () => {
      expect(refusalOf(JSON.stringify(schema)).reason).toBe('none');
    });
  }
});
