/** Container of a keyword's subschemas: its value, an array or an object of them. */
type Holds = 'one' | 'list' | 'map' | 'one or list' | 'map or lists';

/** Keywords under which subschemas are. */
export const APPLICATORS: ReadonlyMap<string, Holds> = new Map<string, Holds>([
  ['$defs', 'map'],
  ['definitions', 'map'],
  ['properties', 'map'],
  ['patternProperties', 'map'],
  ['dependentSchemas', 'map'],
  ['dependencies', 'map or lists'],
  ['allOf', 'list'],
  ['anyOf', 'list'],
  ['oneOf', 'list'],
  ['prefixItems', 'list'],
  ['items', 'one or list'],
  ['additionalItems', 'one'],
  ['contains', 'one'],
  ['additionalProperties', 'one'],
  ['propertyNames', 'one'],
  ['unevaluatedItems', 'one'],
  ['unevaluatedProperties', 'one'],
  ['not', 'one'],
  ['if', 'one'],
  ['then', 'one'],
  ['else', 'one'],
]);

/** Keywords that constrain a value, beside those above. */
export const ASSERTIONS: ReadonlySet<string> = new Set([
  'type',
  'enum',
  'const',
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
  'minLength',
  'maxLength',
  'pattern',
  'format',
  'minItems',
  'maxItems',
  'uniqueItems',
  'minContains',
  'maxContains',
  'required',
  'minProperties',
  'maxProperties',
  'dependentRequired',
  '$ref',
  '$dynamicRef',
]);

/**
 * Keywords of other dialects (earlier and later drafts, ajv and its ajv-keywords, JSON Type Definition, MongoDB) that restrict values, and
 * that the compiler does not support: a schema with one of them is refused, never enforced in part.
 */
const UNSUPPORTED: ReadonlySet<string> = new Set([
  // Drafts 1 to 3, and 2019-09.
  ...['divisibleBy', 'disallow', 'extends', 'requires', 'minimumCanEqual', 'maximumCanEqual', 'maxDecimal'],
  ...['$recursiveRef', '$recursiveAnchor', 'propertyDependencies'],
  // ajv-formats and ajv-keywords.
  ...['formatMinimum', 'formatMaximum', 'formatExclusiveMinimum', 'formatExclusiveMaximum', 'typeof', 'instanceof'],
  ...['range', 'exclusiveRange', 'regexp', 'uniqueItemProperties', 'allRequired', 'anyRequired', 'oneRequired'],
  ...['patternRequired', 'prohibited', 'deepProperties', 'deepRequired', 'select', 'selectCases', 'selectDefault'],
  // JSON Type Definition and MongoDB.
  ...['elements', 'optionalProperties', 'bsonType'],
]);

/** OpenAPI 3.0: beside `type`, null is valid as well. */
export const NULLABLE = 'nullable';

/**
 * True if a keyword restricts no value: annotations of the standards, and keywords that no known dialect restricts values with
 * (`propertyOrdering`, `ui:order`, `x-…`), which JSON Schema says are ignored.
 */
export function isAnnotation(keyword: string): boolean {
  const restricts = APPLICATORS.has(keyword) || ASSERTIONS.has(keyword) || UNSUPPORTED.has(keyword);
  return !restricts && keyword !== NULLABLE && misspelled(keyword) === undefined;
}

/**
 * Why a schema with this keyword is refused: it restricts values in a way that the compiler does not support, or it is probably a
 * misspelling of one that does.
 *
 * @returns undefined for a keyword that is supported or ignored
 */
export function complaintOf(keyword: string): string | undefined {
  if (UNSUPPORTED.has(keyword)) return `${JSON.stringify(keyword)} restricts values and is not supported; remove it`;
  const meant = misspelled(keyword);
  if (meant === undefined) return undefined;
  return `${JSON.stringify(keyword)} is not a keyword; write ${meant}, or rename it to x-${keyword}`;
}

/** Shorter names are too close to each other. */
const LEAST_LETTERS = 6;
const RESTRICTING = [...APPLICATORS.keys(), ...ASSERTIONS].filter(({ length }) => length >= LEAST_LETTERS);
const IN_SMALL_LETTERS = new Map(RESTRICTING.map((keyword) => [keyword.toLowerCase(), keyword]));
/** Results of {@link misspelled} by name: `description` is in each schema of a large document. */
const MISSPELLED = new Map<string, string | undefined>();
const MOST_MISSPELLED = 1024;

/** The keyword that a name is one mistake from, or that it is in letters of another case. */
function misspelled(name: string): string | undefined {
  const isKnown = APPLICATORS.has(name) || ASSERTIONS.has(name);
  if (isKnown || name.length < LEAST_LETTERS || /^(x-|_)/.test(name)) return undefined;
  if (MISSPELLED.has(name)) return MISSPELLED.get(name);
  const meant = IN_SMALL_LETTERS.get(name.toLowerCase()) ?? RESTRICTING.find((keyword) => isOneEditFrom(keyword, name));
  if (MISSPELLED.size === MOST_MISSPELLED) MISSPELLED.clear();
  MISSPELLED.set(name, meant);
  return meant;
}

/** True if one letter is another, missing or too many, or two neighbours have changed places. */
function isOneEditFrom(a: string, b: string): boolean {
  const [short, long] = a.length <= b.length ? [a, b] : [b, a];
  if (long.length - short.length > 1) return false;
  let at = 0;
  while (at < short.length && short[at] === long[at]) at += 1;
  if (long.length > short.length) return short.slice(at) === long.slice(at + 1);
  const areSwapped = short[at] === long[at + 1] && short[at + 1] === long[at];
  const behind = at + (areSwapped ? 2 : 1);
  return short.slice(behind) === long.slice(behind);
}
