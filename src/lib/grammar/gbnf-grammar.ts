import { Budget } from './budget.js';
import { lineAndColumn, parseGbnf } from './gbnf-syntax.js';
import { type Expression, Grammar, type GrammarRules, rule, type Surroundings } from './grammar.js';
import { invalid } from './refusal.js';

/**
 * The grammar of the texts that a grammar in GBNF produces from its rule `root`.
 *
 * @param strings how strings of JSON are written in the surroundings
 * @throws GrammarError `CONSTRAINT_INVALID` for wrong syntax, a rule nobody defines, no rule `root`, or where nothing can be
 *   produced; `CONSTRAINT_UNSUPPORTED` for forms of single tokens; both with line and column
 */
export function gbnfGrammar(
  source: string,
  around?: Surroundings,
  strings: Grammar['strings'] = 'plain',
): GrammarRules {
  const { rules, uses } = parseGbnf(source);
  const at = lineAndColumn(source, source.length);
  if (!rules.has('root')) throw invalid('grammar', { at, keyword: 'root' }, 'it has no rule root, where texts begin');
  for (const [name, offset] of uses) {
    if (rules.has(name)) continue;
    const place = { at: lineAndColumn(source, offset), keyword: name };
    throw invalid('grammar', place, `the rule ${name} is used and never defined`);
  }
  const grammar = new Grammar(new Budget('grammar'), strings);
  for (const [name, content] of rules) {
    if (around === undefined) grammar.set(name, content);
    else grammar.set(inner(name), renamed(content));
  }
  const made = grammar.rulesFrom(around === undefined ? rules.get('root')! : around(rule(inner('root')), grammar));
  if (made === undefined)
    throw invalid('grammar', { at, keyword: 'root' }, 'no text can be finished; end its recursion');
  return made;
}

/** The name of a given rule within a grammar that has rules of its own, `root` among them. */
const inner = (name: string): string => `given-${name}`;

function renamed(expression: Expression): Expression {
  switch (expression.kind) {
    case 'rule':
      return rule(inner(expression.name));
    case 'sequence':
      return { ...expression, parts: expression.parts.map(renamed) };
    case 'choice':
      return { ...expression, options: expression.options.map(renamed) };
    case 'repeat':
      return { ...expression, what: renamed(expression.what) };
    default:
      return expression;
  }
}
