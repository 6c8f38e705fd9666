import fc from 'fast-check';
import { expect, it } from 'vitest';
import { constraintGrammar } from '../../../src/lib/grammar/constraint-grammar.js';
import type { GrammarRules } from '../../../src/lib/grammar/grammar.js';
import { GrammarError } from '../../../src/lib/grammar/refusal.js';
import { parseJson } from '../../../src/lib/json/exact-json.js';
import { acceptedBy } from '../../support/byte-engine.js';
import { exactSchemas } from '../../support/exact-schemas.js';
import { violation } from '../../support/exact-validator.js';
import { Random } from '../../support/random.js';
import { randomAnswers } from '../../support/random-answers.js';
import { byTier, isFull, seed } from '../../support/run-size.js';

/** The grammar of a schema; undefined where nothing satisfies it, or it is more than a grammar can say. */
function grammarOfSchema(value: string): GrammarRules | undefined {
  try {
    return constraintGrammar({ $case: 'jsonSchema', value });
  } catch (error) {
    if (error instanceof GrammarError && /^CONSTRAINT_/.test(error.reason)) return undefined;
    throw error;
  }
}

/** Parts of the full tier's 10,000 schemas, each within a test's time limit. */
const PARTS = Array.from({ length: isFull ? 20 : 1 }, (_, part) => part);

it.each(PARTS)(
  'each answer of a schema satisfies it exactly, whatever its numbers and keys are (part %i)',
  async (part) => {
    const random = new Random(seed(11 + 100 * part));
    const numRuns = byTier({ quick: 60, default: 150, full: 500 });
    const schemas = fc.sample(exactSchemas, { numRuns, seed: seed(12 + 100 * part) });
    let written = 0;
    for (const text of schemas) {
      const grammar = grammarOfSchema(text);
      if (grammar === undefined) continue;
      written += 1;
      for (const answer of await randomAnswers(grammar, 2, random)) {
        expect(violation(parseJson(text), parseJson(answer)), `${text} has the answer ${answer}`).toBeUndefined();
      }
    }
    // The others contradict themselves, or are beyond a limit.
    expect(written).toBeGreaterThan(0.8 * schemas.length);
  },
);

it.each([
  ['{"const": 9007199254740993}', ['9007199254740993'], ['9007199254740992']],
  [
    '{"enum": [1234567890123456789, 1234567890123456790]}',
    ['1234567890123456789', '1234567890123456790'],
    ['1234567890123456800'],
  ],
  [
    '{"type": "integer", "minimum": 12345678901234567891, "maximum": 12345678901234567891}',
    ['12345678901234567891'],
    ['12345678901234567000', '12345678901234567890', '12345678901234567892'],
  ],
  [
    '{"type": "number", "exclusiveMinimum": 0.1234567890123456789}',
    ['0.12345678901234567891'],
    ['0.1234567890123456789'],
  ],
  ['{"type": "integer", "const": 1.0}', ['1'], ['1.0']],
  ['{"type": "integer", "enum": [-0.0, 1e2]}', ['0', '100'], ['-0.0', '1e2']],
  ['{"const": 1.0}', ['1.0'], ['2']],
  ['{"allOf": [{"enum": [1, 2]}, {"enum": [2.0, 3]}]}', ['2'], ['1', '3']],
  [
    '{"type": "number", "not": {"const": 10000000000000000000000000000000000000001}}',
    ['10000000000000000000000000000000000000000'],
    ['10000000000000000000000000000000000000001', '10000000000000000000000000000000000000001.0'],
  ],
  [
    '{"type": "integer", "minimum": 9007199254740990, "maximum": 9007199254740999, "multipleOf": 7}',
    ['9007199254740995'],
    ['9007199254740993', '9007199254740996'],
  ],
  ['{"const": {"b": 1, "10": 2, "2": 3}}', ['{"b": 1, "10": 2, "2": 3}'], ['{"2": 3, "10": 2, "b": 1}']],
  [
    '{"type": "object", "properties": {"b": {"const": 0}, "10": {"const": 0}, "__proto__": {"const": 0}, "2": {"const": 0}}, "required": ["b", "10", "__proto__", "2"], "additionalProperties": false}',
    ['{"b":0,"10":0,"__proto__":0,"2":0}'],
    ['{"2":0,"10":0,"b":0,"__proto__":0}'],
  ],
  [
    '{"type": "array", "uniqueItems": true, "minItems": 2, "items": {"enum": [1, 1.0, 2]}}',
    ['[1,2]'],
    ['[1,1.0]', '[1.0,1]'],
  ],
])('%s is exact', async (schema, valid, invalid) => {
  const grammar = grammarOfSchema(schema)!;
  expect(await acceptedBy(grammar, [...valid, ...invalid])).toEqual(valid);
  for (const text of valid) expect(violation(parseJson(schema), parseJson(text))).toBeUndefined();
});

it.each(['{"const": 1e400}', '{"enum": [1e9007199254740993]}'])('%s is written as it is', async (schema) => {
  const [text = ''] = /1e\d+/.exec(schema) ?? [];
  expect(await acceptedBy(grammarOfSchema(schema)!, [text])).toEqual([text]);
});

it.each(['{"minimum": 1e100000}', '{"multipleOf": 1e-9007199254740993}', '{"not": {"const": 1e5000}}'])(
  'more digits than a grammar counts are refused: %s',
  (value) => {
    expect(() => constraintGrammar({ $case: 'jsonSchema', value })).toThrow(
      expect.objectContaining({ reason: expect.stringMatching(/^CONSTRAINT_/) }),
    );
  },
);
