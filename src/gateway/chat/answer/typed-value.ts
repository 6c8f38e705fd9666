import { Decimal } from '../../../lib/json/decimal.js';
import { isJsonNumeric, isJsonObject, parseJson } from '../../../lib/json/exact-json.js';
import type { OfferedTool } from './events.js';
import { jsonOfPythonLiteral } from './python-literal.js';
import type { TextSink } from './text-reader.js';

type Schema = Readonly<Record<string, unknown>>;

/** Types of JSON that a parameter may have; undefined: the schema does not say. */
type Types = ReadonlySet<string> | undefined;

/**
 * The parameters of a function by name, for formats that write values without quotes: which text is a string and which is
 * JSON is the schema's word.
 */
export class ParameterTypes {
  private readonly properties: Schema;

  constructor(tool: OfferedTool | undefined) {
    this.properties = objectOf(objectOf(parsed(tool?.parametersJson)).properties);
  }

  /** The parameters that the schema names. */
  get names(): readonly string[] {
    return Object.keys(this.properties);
  }

  /** True if the value of a parameter is a string, whatever it looks like. */
  isString(name: string): boolean {
    const types = this.typesOf(name);
    return types?.size === 1 && types.has('string');
  }

  /**
   * The JSON of a value that was written as text: itself where it is JSON of a type that the parameter may have, Python's
   * constants, lists and dicts included, which some templates write; else a string.
   */
  jsonOf(name: string, text: string): string {
    const types = this.typesOf(name);
    const trimmed = text.trim();
    const written = PYTHON_CONSTANTS.get(trimmed) ?? trimmed;
    const own = typeOf(written);
    const takesMany = types?.has('array') || types?.has('object');
    const printed = own === undefined && takesMany ? jsonOfPythonLiteral(trimmed) : undefined;
    const json = printed ?? written;
    const type = printed === undefined ? own : typeOf(printed);
    const isTaken =
      type !== undefined && (types === undefined || types.has(type) || (type === 'integer' && types.has('number')));
    return isTaken ? json : JSON.stringify(text);
  }

  private typesOf(name: string): Types {
    return Object.hasOwn(this.properties, name) ? typesOf(objectOf(this.properties[name])) : undefined;
  }
}

/** Python's names of constants, as some models write them, and JSON's. */
export const PYTHON_CONSTANTS: ReadonlyMap<string, string> = new Map([
  ['True', 'true'],
  ['False', 'false'],
  ['None', 'null'],
]);

/** The text of a JSON string without its quotes, in pieces: `sink` gets each escaped. */
export function escapedTo(sink: TextSink): TextSink {
  return (text) => sink(JSON.stringify(text).slice(1, -1));
}

function typesOf(schema: Schema): Types {
  const { type, enum: values, const: constant, anyOf, oneOf, nullable } = schema;
  const listedTypes = [type ?? []].flat().map(String);
  if (listedTypes.length > 0) return new Set([...listedTypes, ...(nullable === true ? ['null'] : [])]);
  const alternatives = anyOf ?? oneOf;
  if (Array.isArray(alternatives)) {
    const all = alternatives.map((alternative) => typesOf(objectOf(alternative)));
    return all.some((types) => types === undefined) ? undefined : new Set(all.flatMap((types) => [...(types ?? [])]));
  }
  const listed = Array.isArray(values) ? values : constant === undefined ? undefined : [constant];
  return listed && new Set(listed.map(typeOfValue));
}

/** The type of a JSON text; undefined where it is none. */
function typeOf(json: string): string | undefined {
  const value = parsed(json);
  return value === undefined ? undefined : typeOfValue(value);
}

function typeOfValue(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (isJsonNumeric(value)) return Decimal.of(value).isInteger ? 'integer' : 'number';
  return typeof value;
}

function parsed(json: string | undefined): unknown {
  try {
    return json ? parseJson(json) : undefined;
  } catch {
    return undefined;
  }
}

function objectOf(value: unknown): Schema {
  return isJsonObject(value) ? value : {};
}
