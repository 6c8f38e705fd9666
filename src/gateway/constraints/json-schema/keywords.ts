/** How a keyword holds subschemas: as its value, as an array or as an object of them. */
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

/** Keywords that say where something is and what it is called, and those that the standards define as annotations. */
const SILENT: ReadonlySet<string> = new Set([
  '$schema',
  '$id',
  'id',
  '$anchor',
  '$dynamicAnchor',
  '$comment',
  '$vocabulary',
  'title',
  'description',
  'default',
  'examples',
  'deprecated',
  'readOnly',
  'writeOnly',
  'contentEncoding',
  'contentMediaType',
  'contentSchema',
]);

/** What validators of earlier drafts and other standards (OpenAPI, hyper-schema, generators) read and JSON Schema does not. */
const FOREIGN: ReadonlySet<string> = new Set([
  'example',
  'readonly',
  'links',
  'media',
  'name',
  'version',
  'propertyOrder',
  'options',
  'javaType',
  'javaInterfaces',
  'extendsJavaClass',
  'enumNames',
  'enumDescriptions',
  'markdownDescription',
  'deprecationMessage',
  'errorMessage',
  'externalDocs',
  'discriminator',
  'xml',
  'strict',
  // Iglu's (https://docs.snowplow.io/docs/fundamentals/schemas/): whose schema it is, its name and version.
  'self',
]);

/** Whether a keyword is known to say nothing about which values are valid. */
export function isAnnotation(keyword: string): boolean {
  return SILENT.has(keyword) || FOREIGN.has(keyword) || /^(x-|_)/.test(keyword);
}

export const isUnderstood = (keyword: string) =>
  APPLICATORS.has(keyword) || ASSERTIONS.has(keyword) || isAnnotation(keyword);
