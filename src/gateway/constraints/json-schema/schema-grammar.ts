import { invalid } from '../refusal.js';
import { Work } from '../work.js';
import { SchemaDocument } from './document.js';
import { Expansion } from './expand.js';
import { ValueGrammar } from './value-grammar.js';

/**
 * The grammar of the JSON texts that satisfy a JSON Schema; `{}` is any object.
 *
 * @throws RocmForgeError `CONSTRAINT_INVALID` for what is no schema, or allows nothing; `CONSTRAINT_UNSUPPORTED` for what no
 *   grammar of ours says exactly; both with a JSON pointer
 */
export function schemaGrammar(source: string): string {
  const work = new Work('json_schema');
  const document = new SchemaDocument(source);
  const values = new ValueGrammar(new Expansion(document, work), work);
  const { schema } = document.root;
  const isEmpty = typeof schema !== 'boolean' && Object.keys(schema).length === 0;
  const root = isEmpty ? values.anyObject() : values.value([{ node: document.root, isNegated: false }]);
  const made = values.grammar.toText(root);
  if (made === undefined)
    throw invalid('json_schema', { at: '', keyword: '' }, 'nothing satisfies it; loosen what contradicts');
  return made;
}
