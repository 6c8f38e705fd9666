import { isJsonObject, JsonDepthError, jsonText, parseJson } from '../../json/exact-json.js';
import { CONSTRAINT_LIMITS } from '../limits.js';
import { invalid, unsupported } from '../refusal.js';
import { dialectOf } from './dialect.js';
import { APPLICATORS, isAnnotation } from './keywords.js';

export type SchemaObject = Readonly<Record<string, unknown>>;

/** A schema of the document, or one we made to say the same in parts. */
export interface SchemaNode {
  readonly id: number;
  readonly schema: boolean | SchemaObject;
  /** JSON pointer from the document's root. */
  readonly at: string;
  /** Base URI of its references. */
  readonly base: string;
}

const BASE = 'json-schema://document/';

export const isObject: (value: unknown) => value is SchemaObject = isJsonObject;

/** One JSON Schema, its subschemas and what its references mean. */
export class SchemaDocument {
  readonly root: SchemaNode;
  /** True if `$ref` hides all keywords next to it, as until draft-07. */
  readonly isLegacy: boolean;
  /** True if unevaluatedItems or unevaluatedProperties is anywhere in it. */
  readonly hasUnevaluated: boolean;
  readonly always: SchemaNode;
  readonly never: SchemaNode;
  readonly #nodes = new Map<SchemaObject, SchemaNode>();
  readonly #resources = new Map<string, { node: SchemaNode; anchors: Map<string, SchemaNode> }>();
  readonly #dynamic = new Map<string, number>();
  readonly #made = new Map<string, SchemaNode>();
  #ids = 0;

  /** @throws GrammarError `CONSTRAINT_INVALID` for what is not JSON Schema */
  constructor(source: string) {
    const schema = parsed(source);
    const { isLegacy, idKeyword } = dialectOf(schema);
    this.isLegacy = isLegacy;
    // Keys of the parsed text: a key may be spelled with escapes.
    const mayHave = source.includes('unevaluated') || source.includes('\\u');
    this.hasUnevaluated = mayHave && /"unevaluated(Items|Properties)"/.test(jsonText(schema));
    this.always = this.#node(true, '', BASE);
    this.never = this.#node(false, '', BASE);
    this.root = this.#index(schema, '', BASE, idKeyword);
    if (!this.#resources.has(BASE)) this.#resources.set(BASE, { node: this.root, anchors: new Map() });
  }

  #node(schema: boolean | SchemaObject, at: string, base: string): SchemaNode {
    const node = { id: this.#ids++, schema, at, base };
    if (typeof schema !== 'boolean' && !this.#nodes.has(schema)) this.#nodes.set(schema, node);
    return node;
  }

  /** The node of a subschema; scalars of equal keywords, which come often, are one, at the place of the first. */
  #indexed(schema: SchemaObject, at: string, base: string): SchemaNode {
    const key = at === '' ? undefined : scalarKey(schema);
    if (key === undefined) return this.#node(schema, at, base);
    const known = this.#made.get(key) ?? this.#node(schema, at, base);
    this.#made.set(key, known);
    this.#nodes.set(schema, known);
    return known;
  }

  /** Notes every subschema, and the names that `$id` and `$anchor` give. */
  #index(schema: boolean | SchemaObject, at: string, outer: string, idKeyword: string): SchemaNode {
    if (typeof schema === 'boolean') return this.#node(schema, at, outer);
    const id = schema[idKeyword];
    // Beside $ref, drafts before 2019-09 read no $id.
    const isNamed = typeof id === 'string' && !(this.isLegacy && '$ref' in schema);
    const base = isNamed && !id.startsWith('#') ? this.#absolute(id, outer, `${at}/${idKeyword}`) : outer;
    const node = this.#indexed(schema, at, base);
    if (at === '' || base !== outer) this.#resources.set(base, { node, anchors: new Map() });
    const { anchors } = this.#resources.get(base)!;
    if (isNamed && id.startsWith('#') && id.length > 1) anchors.set(id.slice(1), node);
    for (const keyword of ['$anchor', '$dynamicAnchor']) {
      const anchor = schema[keyword];
      if (typeof anchor === 'string') anchors.set(anchor, node);
    }
    const dynamic = schema.$dynamicAnchor;
    if (typeof dynamic === 'string') this.#dynamic.set(dynamic, (this.#dynamic.get(dynamic) ?? 0) + 1);
    for (const [pointer, child] of subschemas(schema)) this.#index(child, `${at}${pointer}`, base, idKeyword);
    return node;
  }

  #absolute(reference: string, base: string, at: string): string {
    try {
      return new URL(reference, base).href.replace(/#$/, '');
    } catch {
      throw invalid('json_schema', { at, keyword: '$id' }, `${JSON.stringify(reference)} is not a URI reference`);
    }
  }

  /** The subschema under a keyword of a node, and under a name or an index there. */
  child(node: SchemaNode, ...path: readonly (string | number)[]): SchemaNode {
    let value: unknown = node.schema;
    let at = node.at;
    for (const step of path) {
      value = (value as Readonly<Record<string | number, unknown>>)[step];
      at += `/${String(step).replaceAll('~', '~0').replaceAll('/', '~1')}`;
    }
    if (value === true) return this.always;
    if (value === false) return this.never;
    if (!isObject(value)) {
      throw invalid('json_schema', { at, keyword: String(path[0]) }, 'a schema must be an object, true or false');
    }
    return this.#nodes.get(value) ?? this.#node(value, at, node.base);
  }

  /** A schema of our own, said at the place of another; the same one for the same words there. */
  make(schema: SchemaObject, beside: SchemaNode): SchemaNode {
    const key = `${beside.at} ${jsonText(schema)}`;
    const known = this.#made.get(key) ?? this.#node(schema, beside.at, beside.base);
    this.#made.set(key, known);
    return known;
  }

  /**
   * Target of `$ref` or `$dynamicRef` of a node.
   *
   * @throws GrammarError `CONSTRAINT_UNSUPPORTED` for what is outside of the document, or depends on the path taken
   */
  target(node: SchemaNode, keyword: '$ref' | '$dynamicRef'): SchemaNode {
    const reference = (node.schema as SchemaObject)[keyword];
    const place = { at: `${node.at}/${keyword}`, keyword };
    if (typeof reference !== 'string') throw invalid('json_schema', place, 'a reference must be a string');
    const [uri = '', fragment = ''] = this.#absolute(reference, node.base, place.at).split('#');
    const resource = this.#resources.get(uri);
    if (resource === undefined) {
      const sentence = `${JSON.stringify(reference)} is outside of the schema; put what it means into $defs`;
      throw unsupported('json_schema', place, sentence);
    }
    const name = unescapedFragment(fragment);
    const target = name === '' ? resource.node : (resource.anchors.get(name) ?? this.#pointed(resource.node, name));
    if (target === undefined)
      throw invalid('json_schema', place, `${JSON.stringify(reference)} is nowhere in the schema`);
    const dynamic = isObject(target.schema) ? target.schema.$dynamicAnchor : undefined;
    if (keyword === '$dynamicRef' && dynamic === name && this.#dynamic.get(name)! > 1) {
      throw unsupported('json_schema', place, `${JSON.stringify(reference)} has more than one meaning here; use $ref`);
    }
    return target;
  }

  #pointed(from: SchemaNode, pointer: string): SchemaNode | undefined {
    if (!pointer.startsWith('/')) return undefined;
    let value: unknown = from.schema;
    let { base } = from;
    for (const token of pointer.slice(1).split('/')) {
      if (typeof value !== 'object' || value === null) return undefined;
      const name = token.replaceAll('~1', '/').replaceAll('~0', '~');
      if (!Object.hasOwn(value, name)) return undefined;
      value = (value as SchemaObject)[name];
      if (isObject(value)) base = this.#nodes.get(value)?.base ?? base;
    }
    if (value === true) return this.always;
    if (value === false) return this.never;
    return isObject(value) ? (this.#nodes.get(value) ?? this.#node(value, `${from.at}${pointer}`, base)) : undefined;
  }
}

function parsed(source: string): boolean | SchemaObject {
  let value: unknown;
  try {
    value = parseJson(source);
  } catch (error) {
    if (error instanceof JsonDepthError) throw tooDeep();
    throw invalid('json_schema', { at: '', keyword: '' }, `it is not JSON: ${(error as Error).message}`);
  }
  if (typeof value !== 'boolean' && !isObject(value)) {
    throw invalid('json_schema', { at: '', keyword: '' }, 'a schema must be an object, true or false');
  }
  refuseDepth(value);
  return value;
}

function tooDeep() {
  const sentence = `it is nested deeper than ${CONSTRAINT_LIMITS.nesting}; put inner schemas into $defs`;
  return unsupported('json_schema', { at: '', keyword: 'nesting' }, sentence);
}

/** Deeper nesting is refused before anything walks it by recursion. */
function refuseDepth(value: unknown): void {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > CONSTRAINT_LIMITS.nesting) throw tooDeep();
    level = level.flatMap((one) => (Array.isArray(one) || isObject(one) ? Object.values(one) : []));
  }
}

/** The keywords of a schema that has no others within, no references and no names; undefined for other schemas. */
function scalarKey(schema: SchemaObject): string | undefined {
  const isScalar = (value: unknown) => !isObject(value) && !Array.isArray(value);
  const keywords = Object.entries(schema).filter(([keyword]) => keyword.startsWith('$') || !isAnnotation(keyword));
  for (const [keyword, value] of keywords) {
    if (keyword.startsWith('$') || keyword === 'id') return undefined;
    if (!isScalar(value) && !(Array.isArray(value) && value.every(isScalar))) return undefined;
  }
  return jsonText(Object.fromEntries(keywords));
}

function* subschemas(schema: SchemaObject): Generator<[string, boolean | SchemaObject]> {
  const isSchema = (value: unknown): value is boolean | SchemaObject => typeof value === 'boolean' || isObject(value);
  for (const [keyword, value] of Object.entries(schema)) {
    const holds = APPLICATORS.get(keyword);
    if (holds === undefined) continue;
    if (holds.startsWith('one') && isSchema(value)) yield [`/${keyword}`, value];
    if (holds.endsWith('list') && Array.isArray(value)) {
      for (const [index, child] of value.entries()) if (isSchema(child)) yield [`/${keyword}/${index}`, child];
    }
    if (holds.startsWith('map') && isObject(value)) {
      for (const [name, child] of Object.entries(value)) {
        if (isSchema(child)) yield [`/${keyword}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`, child];
      }
    }
  }
}

function unescapedFragment(fragment: string): string {
  try {
    return decodeURIComponent(fragment);
  } catch {
    return fragment;
  }
}
