import { lineAndColumn, parseGbnf } from './gbnf-syntax.js';
import { Grammar } from './grammar.js';
import { invalid } from './refusal.js';
import { Work } from './work.js';

/**
 * The grammar of the texts that a grammar in GBNF produces from its rule `root`.
 *
 * @throws RocmForgeError `CONSTRAINT_INVALID` for wrong syntax, a rule nobody defines, no rule `root`, or where nothing can be
 *   produced; `CONSTRAINT_UNSUPPORTED` for forms of single tokens; both with line and column
 */
export function gbnfGrammar(source: string): string {
  const { rules, uses } = parseGbnf(source);
  const at = lineAndColumn(source, source.length);
  if (!rules.has('root')) throw invalid('grammar', { at, keyword: 'root' }, 'it has no rule root, where texts begin');
  for (const [name, offset] of uses) {
    if (rules.has(name)) continue;
    const place = { at: lineAndColumn(source, offset), keyword: name };
    throw invalid('grammar', place, `the rule ${name} is used and never defined`);
  }
  const grammar = new Grammar(new Work('grammar'));
  for (const [name, content] of rules) grammar.set(name, content);
  const made = grammar.toText(rules.get('root')!);
  if (made === undefined)
    throw invalid('grammar', { at, keyword: 'root' }, 'no text can be finished; end its recursion');
  return made;
}
