import fc from 'fast-check';
import { numberTexts, oddKeys } from './exact-values.js';

/** A small constant as text; objects and arrays of some. */
const constants: fc.Arbitrary<string> = fc.letrec<{ any: string }>((tie) => ({
  any: fc.oneof(
    { maxDepth: 2 },
    { weight: 5, arbitrary: numberTexts },
    { weight: 1, arbitrary: fc.constantFrom('null', 'true', '"1.0"', '"é"', '""') },
    { weight: 1, arbitrary: fc.array(tie('any'), { maxLength: 3 }).map((items) => `[${items.join(', ')}]`) },
    {
      weight: 1,
      arbitrary: fc
        .uniqueArray(fc.tuple(oddKeys, tie('any')), { maxLength: 3, selector: ([key]) => key })
        .map((members) => `{${members.map(([key, value]) => `${JSON.stringify(key)}: ${value}`).join(', ')}}`),
    },
  ),
})).any;

const INTEGER = /^-?\d+$/;
const integerTexts = numberTexts.filter((text) => INTEGER.test(text));

/** A range of integers that is not empty: its ends in two spellings. */
const ranges = fc
  .tuple(integerTexts, fc.bigInt({ min: 0n, max: 10n ** 40n }), fc.constantFrom('', '.0', 'e0'), fc.boolean())
  .map(([low, width, spelling, isTight]) => {
    const high = BigInt(low) + (isTight ? width % 3n : width);
    return `"minimum": ${low}${spelling}, "maximum": ${high}`;
  });

const leaves: fc.Arbitrary<string> = fc.oneof(
  constants.map((value) => `{"const": ${value}}`),
  fc.array(constants, { minLength: 1, maxLength: 4 }).map((values) => `{"enum": [${values.join(', ')}]}`),
  fc.tuple(fc.constantFrom('integer', 'number'), ranges).map(([type, range]) => `{"type": "${type}", ${range}}`),
  fc
    .tuple(ranges, fc.constantFrom('3', '7.0', '0.5', '1e1'))
    .map(
      ([range, divisor]) =>
        `{"type": "number", ${range.replace('minimum', 'exclusiveMinimum')}, "multipleOf": ${divisor}}`,
    ),
  fc
    .tuple(ranges, constants)
    .map(([range, value]) => `{"type": "integer", "nullable": true, ${range}, "not": {"enum": [${value}, 0]}}`),
  fc
    .array(numberTexts, { minLength: 1, maxLength: 3 })
    .map((values) => `{"type": "integer", "enum": [${values.join(', ')}, 5.0], "default": ${values[0]}}`),
  fc
    .array(numberTexts, { minLength: 2, maxLength: 4 })
    .map(
      (values) => `{"type": "array", "uniqueItems": true, "maxItems": 3, "items": {"enum": [${values.join(', ')}]}}`,
    ),
  fc.constantFrom('{"type": "boolean"}', '{"type": "string", "maxLength": 3}', '{"type": ["null", "boolean"]}'),
);

/** Texts of schemas whose numbers no double has, whose keys are odd, and whose values are few or bounded. */
export const exactSchemas: fc.Arbitrary<string> = fc.letrec<{ any: string }>((tie) => ({
  any: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    { weight: 3, arbitrary: leaves },
    {
      weight: 3,
      arbitrary: fc
        .uniqueArray(fc.tuple(oddKeys, tie('any'), fc.boolean()), {
          minLength: 1,
          maxLength: 4,
          selector: ([key]) => key,
        })
        .map((members) => {
          const required = members.filter(([, , isRequired]) => isRequired).map(([key]) => JSON.stringify(key));
          const properties = members.map(([key, schema]) => `${JSON.stringify(key)}: ${schema}`);
          return `{"type": "object", "properties": {${properties.join(', ')}}, "required": [${required.join(', ')}], "additionalProperties": false}`;
        }),
    },
    {
      weight: 1,
      arbitrary: tie('any').map((items) => `{"type": "array", "items": ${items}, "minItems": 1.0, "maxItems": 2}`),
    },
    {
      weight: 1,
      arbitrary: fc
        .tuple(fc.constantFrom('anyOf', 'oneOf'), tie('any'), leaves)
        .map(([keyword, a, b]) => `{"${keyword}": [${a}, ${b}]}`),
    },
  ),
})).any;

/** Schemas of objects, which arguments of calls are. */
export const exactObjectSchemas: fc.Arbitrary<string> = fc
  .uniqueArray(fc.tuple(oddKeys, exactSchemas), { minLength: 1, maxLength: 3, selector: ([key]) => key })
  .map((members) => {
    const properties = members.map(([key, schema]) => `${JSON.stringify(key)}: ${schema}`);
    const required = members.map(([key]) => JSON.stringify(key));
    return `{"type": "object", "properties": {${properties.join(', ')}}, "required": [${required.join(', ')}], "additionalProperties": false}`;
  });
