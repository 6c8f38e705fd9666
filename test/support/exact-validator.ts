import { Decimal } from '../../src/lib/json/decimal.js';
import { isJsonNumeric, isJsonObject, jsonText } from '../../src/lib/json/exact-json.js';

type Schema = Readonly<Record<string, unknown>>;

/**
 * True if a value satisfies a schema, both as the exact reader has them: ajv reads rounded numbers and cannot tell. It knows the
 * keywords that tests generate.
 *
 * @returns the JSON pointer of what is not satisfied; undefined where all is
 * @throws Error for a keyword that it does not know
 */
export function violation(schema: unknown, value: unknown, at = ''): string | undefined {
  if (schema === true) return undefined;
  if (schema === false) return at;
  for (const [keyword, operand] of Object.entries(schema as Schema)) {
    const check = CHECKS[keyword];
    if (check === undefined) throw new Error(`the exact validator does not know ${keyword}`);
    const found = check(value, operand as never, schema as Schema, `${at}/${keyword}`);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The sign of a - b. */
export function compared(a: Decimal, b: Decimal): number {
  const difference = scaled(a, b) - scaled(b, a);
  return difference > 0n ? 1 : difference < 0n ? -1 : 0;
}

/** A value as an integer, in the smallest unit that two have in common. */
function scaled({ digits, exponent, isNegative }: Decimal, other: Decimal): bigint {
  const least = exponent < other.exponent ? exponent : other.exponent;
  return BigInt(`${isNegative ? '-' : ''}${digits}`) * 10n ** (exponent - least);
}

/** True if two values are equal to JSON Schema: numbers by value, objects whatever the order of their keys. */
export function equalJson(a: unknown, b: unknown): boolean {
  return canonical(a) === canonical(b);
}

function canonical(value: unknown): string {
  if (isJsonNumeric(value)) return Decimal.of(value).key;
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (!isJsonObject(value)) return jsonText(value);
  const members = Object.keys(value).map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`);
  return `{${members.sort().join()}}`;
}

const TYPES: Readonly<Record<string, (value: unknown) => boolean>> = {
  null: (value) => value === null,
  boolean: (value) => typeof value === 'boolean',
  string: (value) => typeof value === 'string',
  number: isJsonNumeric,
  integer: (value) => isJsonNumeric(value) && Decimal.of(value).isInteger,
  array: Array.isArray,
  object: isJsonObject,
};

type Check = (value: unknown, operand: never, schema: Schema, at: string) => string | undefined;

const when =
  (
    holds: (value: never, operand: never, schema: Schema) => boolean,
    of: (value: unknown) => boolean = () => true,
  ): Check =>
  (value, operand, schema, at) =>
    !of(value) || holds(value as never, operand, schema) ? undefined : at;
const bound = (holds: (sign: number) => boolean): Check =>
  when((value: number, limit: number) => holds(compared(Decimal.of(value), Decimal.of(limit))), isJsonNumeric);

const CHECKS: Readonly<Record<string, Check>> = {
  type: when((value, type: string | string[], { nullable }) =>
    [type, nullable === true ? 'null' : []].flat(2).some((name) => TYPES[name]?.(value)),
  ),
  nullable: () => undefined,
  const: when((value, constant) => equalJson(value, constant)),
  enum: when((value, values: unknown[]) => values.some((one) => equalJson(value, one))),
  minimum: bound((sign) => sign >= 0),
  maximum: bound((sign) => sign <= 0),
  exclusiveMinimum: bound((sign) => sign > 0),
  exclusiveMaximum: bound((sign) => sign < 0),
  multipleOf: when((value: number, divisor: number) => {
    const [a, b] = [Decimal.of(value), Decimal.of(divisor)];
    return scaled(a, b) % scaled(b, a) === 0n;
  }, isJsonNumeric),
  minLength: when((value: string, least: number) => [...value].length >= least, TYPES.string),
  maxLength: when((value: string, most: number) => [...value].length <= most, TYPES.string),
  minItems: when((value: unknown[], least: number) => value.length >= least, Array.isArray),
  maxItems: when((value: unknown[], most: number) => value.length <= most, Array.isArray),
  uniqueItems: when((value: unknown[]) => new Set(value.map(canonical)).size === value.length, Array.isArray),
  items: (value, items, _schema, at) =>
    Array.isArray(value) ? first(value.map((item, i) => violation(items, item, `${at}/${i}`))) : undefined,
  required: when((value: Schema, names: string[]) => names.every((name) => Object.hasOwn(value, name)), isJsonObject),
  properties: (value, properties: Schema, _schema, at) =>
    isJsonObject(value)
      ? first(
          Object.keys(properties)
            .filter((name) => Object.hasOwn(value, name))
            .map((name) => violation(properties[name], value[name], `${at}/${name}`)),
        )
      : undefined,
  additionalProperties: (value, additional, { properties = {} }, at) =>
    isJsonObject(value)
      ? first(
          Object.keys(value)
            .filter((name) => !Object.hasOwn(properties as Schema, name))
            .map((name) => violation(additional, value[name], `${at}/${name}`)),
        )
      : undefined,
  anyOf: when((value, branches: unknown[]) => branches.some((branch) => violation(branch, value) === undefined)),
  allOf: (value, branches: unknown[], _schema, at) => first(branches.map((branch) => violation(branch, value, at))),
  oneOf: when(
    (value, branches: unknown[]) => branches.filter((branch) => violation(branch, value) === undefined).length === 1,
  ),
  not: when((value, schema) => violation(schema, value) !== undefined),
  title: () => undefined,
  default: () => undefined,
  $comment: () => undefined,
};

const first = (found: readonly (string | undefined)[]) => found.find((at) => at !== undefined);
