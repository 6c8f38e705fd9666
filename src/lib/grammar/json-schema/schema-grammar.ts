import { Budget } from '../budget.js';
import { type Expression, Grammar, type GrammarRules, type Surroundings } from '../grammar.js';
import { invalid } from '../refusal.js';
import { SchemaDocument } from './document.js';
import { Expansion } from './expand.js';
import { conjoin } from './shape.js';
import { ValueGrammar } from './value-grammar.js';

/**
 * The grammar of the JSON texts that satisfy a JSON Schema; `{}` is any object.
 *
 * @param strings how strings of JSON are written
 * @throws GrammarError `CONSTRAINT_INVALID` for what is not a schema, or allows nothing; `CONSTRAINT_UNSUPPORTED` for what no
 *   grammar of ours says exactly; both with a JSON pointer
 */
export function schemaGrammar(
  source: string,
  around: Surroundings = (root) => root,
  strings: Grammar['strings'] = 'plain',
): GrammarRules {
  const { values, document } = valuesOfSchema(source, new Grammar(new Budget('json_schema'), strings));
  const { schema } = document.root;
  const isEmpty = typeof schema !== 'boolean' && Object.keys(schema).length === 0;
  const root = isEmpty ? values.anyObject() : values.value([{ node: document.root, isNegated: false }]);
  const made = values.grammar.rulesFrom(around(root, values.grammar));
  if (made === undefined)
    throw invalid('json_schema', { at: '', keyword: '' }, 'no value satisfies the schema; loosen what contradicts');
  return made;
}

/**
 * The JSON objects that satisfy a JSON Schema, within a grammar that may hold others.
 *
 * @throws GrammarError as {@link schemaGrammar}, but where nothing satisfies it
 */
export function objectsOfSchema(source: string, grammar: Grammar): Expression {
  const { values, document } = valuesOfSchema(source, grammar);
  const object = document.make({ type: 'object' }, document.root);
  const objects = values.value(conjoin(...[document.root, object].map((node) => [{ node, isNegated: false }])));
  grammar.makeRules();
  return objects;
}

/** A JSON Schema, and what writes values of its parts into a grammar. */
export function valuesOfSchema(source: string, grammar: Grammar) {
  const document = new SchemaDocument(source);
  return { document, values: new ValueGrammar(new Expansion(document, grammar.automata), grammar) };
}
