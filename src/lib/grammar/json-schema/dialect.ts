import { Ajv } from 'ajv';
import { Ajv2019 } from 'ajv/dist/2019.js';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { isJsonObject, jsonText, roundedNumbers } from '../../json/exact-json.js';
import { invalid, unsupported } from '../refusal.js';
import type { SchemaObject } from './document.js';

/** Differences of the drafts, where they matter here. */
export interface Dialect {
  readonly isLegacy: boolean;
  readonly idKeyword: '$id' | 'id';
}

const DRAFT_2020 = 'https://json-schema.org/draft/2020-12/schema';
const DRAFT_2019 = 'https://json-schema.org/draft/2019-09/schema';
const DRAFT_07 = 'http://json-schema.org/draft-07/schema';

const OPTIONS = { strict: false, validateFormats: false, logger: false } as const;

/**
 * By metaschema, made when it is first needed. They are ajv's own schemas: no code is made from a request's. Draft-06 is held
 * against draft-07's, which only adds to it; for draft-04 there is none, and each keyword is checked where it is read.
 */
const validators = new Map<string, Ajv>();
const MAKE: Readonly<Record<string, () => Ajv>> = {
  [DRAFT_2020]: () => new Ajv2020(OPTIONS),
  [DRAFT_2019]: () => new Ajv2019(OPTIONS),
  [DRAFT_07]: () => new Ajv(OPTIONS),
};

/**
 * The dialect that a schema is written in, after it was held against its metaschema. One that names none is held against
 * 2020-12, else draft-07; either may have draft-04's `exclusiveMinimum: true`.
 *
 * @throws GrammarError `CONSTRAINT_INVALID` with the pointer of what its metaschema does not allow
 */
export function dialectOf(schema: boolean | SchemaObject): Dialect {
  const named = typeof schema === 'boolean' ? undefined : schema.$schema;
  if (named === undefined || /^https?:\/\/json-schema\.org\/schema#?$/.test(String(named))) {
    const modern = complaintOf(DRAFT_2020, schema);
    if (modern === undefined) return { isLegacy: false, idKeyword: '$id' };
    if (complaintOf(DRAFT_07, schema) === undefined) return { isLegacy: true, idKeyword: '$id' };
    // OpenAPI 3.0 has draft-04's exclusive bounds in schemas that name no dialect.
    const open = withoutExclusiveFlags(schema);
    if (complaintOf(DRAFT_2020, open) === undefined) return { isLegacy: false, idKeyword: '$id' };
    if (complaintOf(DRAFT_07, open) === undefined) return { isLegacy: true, idKeyword: '$id' };
    throw modern;
  }
  const draft = /^https?:\/\/json-schema\.org\/(?:draft-0([467])|draft\/(2019-09|2020-12))\/schema#?$/.exec(
    String(named),
  );
  if (draft === null) {
    const sentence = `${jsonText(named)} is not a dialect we know; 2020-12, 2019-09, draft-07, draft-06 and draft-04 are`;
    throw unsupported('json_schema', { at: '/$schema', keyword: '$schema' }, sentence);
  }
  if (draft[1] === '4') return { isLegacy: true, idKeyword: 'id' };
  const metaschema = draft[2] === '2020-12' ? DRAFT_2020 : draft[2] === '2019-09' ? DRAFT_2019 : DRAFT_07;
  const complaint = complaintOf(metaschema, schema);
  if (complaint !== undefined) throw complaint;
  return { isLegacy: metaschema === DRAFT_07, idKeyword: '$id' };
}

/** A value without its members `exclusiveMinimum` and `exclusiveMaximum` that are true or false. */
function withoutExclusiveFlags(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutExclusiveFlags);
  if (!isJsonObject(value)) return value;
  const isFlag = (name: string) => /^exclusiveM(in|ax)imum$/.test(name) && typeof value[name] === 'boolean';
  const names = Object.keys(value).filter((name) => !isFlag(name));
  return Object.fromEntries(names.map((name) => [name, withoutExclusiveFlags(value[name])]));
}

function complaintOf(metaschema: string, schema: unknown) {
  let ajv = validators.get(metaschema);
  if (ajv === undefined) {
    ajv = MAKE[metaschema]!();
    validators.set(metaschema, ajv);
  }
  // No metaschema depends on digits that a double has not.
  if (ajv.validate(metaschema, roundedNumbers(schema))) return undefined;
  const { instancePath = '', message = 'is not a schema', params = {} } = ajv.errors?.[0] ?? {};
  const allowed = Array.isArray(params.allowedValues) ? `: ${params.allowedValues.join(', ')}` : '';
  const keyword = instancePath.slice(instancePath.lastIndexOf('/') + 1);
  return invalid('json_schema', { at: instancePath, keyword }, `its metaschema says that it ${message}${allowed}`);
}
