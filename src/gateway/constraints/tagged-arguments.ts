import { AS_THEY_ARE, automatonExpression } from '../../lib/grammar/automaton-grammar.js';
import { codePoints, complement } from '../../lib/grammar/code-points.js';
import {
  characters,
  choiceOf,
  type Expression,
  type Grammar,
  optional,
  repeat,
  sequence,
  text,
} from '../../lib/grammar/grammar.js';
import { holds } from '../../lib/grammar/json-schema/containers.js';
import { isObject, type SchemaObject } from '../../lib/grammar/json-schema/document.js';
import { isAnnotation, NULLABLE } from '../../lib/grammar/json-schema/keywords.js';
import { valuesOfSchema } from '../../lib/grammar/json-schema/schema-grammar.js';
import { patternAutomaton } from '../../lib/grammar/pattern-automaton.js';
import { invalid, unsupported } from '../../lib/grammar/refusal.js';
import { jsonText } from '../../lib/json/exact-json.js';
import type { ArgumentsForm } from '../chat/answer/tool-grammar.js';
import { ParameterTypes } from '../chat/answer/typed-value.js';

/** Markup that a format writes around an argument: its name, its value. */
interface ArgumentTags {
  readonly begin: string;
  readonly between: string;
  readonly end: string;
  /** The part of `end` that a value must not hold: a reader takes it for the end. */
  readonly mark: string;
}

export const ARGUMENT_TAGS: Readonly<Record<Exclude<ArgumentsForm, 'json'>, ArgumentTags>> = {
  glm: { begin: '<arg_key>', between: '</arg_key>\n<arg_value>', end: '</arg_value>\n', mark: '</arg_value>' },
  'qwen3-coder': { begin: '<parameter=', between: '>\n', end: '\n</parameter>\n', mark: '</parameter>' },
  'seed-oss': { begin: '<parameter=', between: '>', end: '</parameter>\n', mark: '</parameter>' },
};

/** Keywords that the root of a function's parameters may have. Calls use nothing that it allows beyond `properties`. */
const AT_ROOT = new Set(['type', 'properties', 'required', 'additionalProperties', '$defs', 'definitions', '$schema']);
/** Restrictions that a text between tags can be checked against. */
const OF_TEXT = new Set(['type', 'enum', 'const']);
const NAME = characters(complement(codePoints([0, 0x20], [0x3c, 0x3c], [0x3e, 0x3e])));
const MOST = Number.POSITIVE_INFINITY;

/**
 * The arguments that satisfy a function's parameters, each between tags and in the order of the schema: of a parameter that
 * can only be a string the text as it is, of others JSON, whose strings write `<` as an escape.
 *
 * @param markup what stands for markup in the grammar
 * @throws RocmForgeError `CONSTRAINT_UNSUPPORTED` where the parameters say more than this, by keyword
 */
export function taggedArguments(
  source: string,
  form: keyof typeof ARGUMENT_TAGS,
  grammar: Grammar,
  markup: (value: string) => Expression,
): Expression {
  const tags = ARGUMENT_TAGS[form];
  const { values, document } = valuesOfSchema(source, grammar);
  const schema = rootOf(document.root.schema);
  const free = () => grammar.shared(`free ${form}`, 'free', () => freeText(tags.mark, grammar));
  const argument = (name: Expression, value: Expression) =>
    sequence(markup(tags.begin), name, markup(tags.between), value, markup(tags.end));
  const properties = isObject(schema.properties) ? schema.properties : {};
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const unknown = [...required].find((name) => !Object.hasOwn(properties, String(name)));
  if (unknown !== undefined) throw refused('/required', 'required', `${jsonText(unknown)} is not a property`);
  if (Object.keys(properties).length === 0) {
    const { additionalProperties: other = true } = schema;
    if (isObject(other) && Object.keys(other).length > 0)
      throw refused(
        '/additionalProperties',
        'additionalProperties',
        'values of unnamed keys are not checked against it',
      );
    const any = repeat(argument(repeat(NAME, 1, MOST), free()), 0, MOST);
    return other === false ? text('') : any;
  }
  const types = new ParameterTypes({ name: '', parametersJson: source });
  const all = Object.keys(properties).map((name) => {
    if (!/^[^\s<>]+$/u.test(name))
      throw refused('/properties', 'properties', `${JSON.stringify(name)} cannot be a tag`);
    const node = document.child(document.root, 'properties', name);
    const value = types.isString(name)
      ? textOf(node.schema as SchemaObject, node.at, tags.mark, free)
      : values.value(holds(node));
    const one = argument(text(name), value);
    return required.has(name) ? one : optional(one);
  });
  grammar.makeRules();
  return sequence(...all);
}

function rootOf(schema: boolean | SchemaObject): SchemaObject {
  if (typeof schema === 'boolean') return schema ? {} : { additionalProperties: false };
  for (const keyword of Object.keys(schema)) {
    if (!AT_ROOT.has(keyword) && keyword !== NULLABLE && !isAnnotation(keyword))
      throw refused(`/${keyword}`, keyword, 'it says more than which parameters there are');
  }
  if (schema.type !== undefined && ![schema.type].flat().includes('object'))
    throw invalid('json_schema', { at: '/type', keyword: 'type' }, 'arguments are an object');
  return schema;
}

/** A string as it is: one of some, or any in which nothing ends it. */
function textOf(schema: SchemaObject, at: string, mark: string, free: () => Expression): Expression {
  for (const keyword of Object.keys(schema)) {
    if (!OF_TEXT.has(keyword) && keyword !== NULLABLE && !isAnnotation(keyword))
      throw refused(`${at}/${keyword}`, keyword, 'text between tags is not checked against it');
  }
  const { const: constant, enum: values } = schema as { const?: unknown; enum?: readonly unknown[] };
  if (constant === undefined && values === undefined) return free();
  const listed = values ?? [constant];
  const texts = listed.filter(
    (value): value is string =>
      typeof value === 'string' && !value.includes(mark) && (constant === undefined || value === constant),
  );
  return choiceOf(texts.map((value) => text(value)));
}

/** Any text without the mark. */
function freeText(mark: string, grammar: Grammar): Expression {
  const escaped = mark.replaceAll(/[/<>]/g, (letter) => `\\u{${letter.charCodeAt(0).toString(16)}}`);
  const holding = patternAutomaton(escaped, 'search', grammar.automata);
  return automatonExpression(grammar.automata.not(holding), AS_THEY_ARE, grammar);
}

function refused(at: string, keyword: string, why: string) {
  return unsupported('json_schema', { at, keyword }, `${why}: this model's calls write values between tags`);
}
