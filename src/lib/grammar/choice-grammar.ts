import { Budget } from './budget.js';
import { choiceOf, Grammar, type GrammarRules, type Surroundings, text } from './grammar.js';
import { invalid, unsupported } from './refusal.js';

/**
 * The grammar of exactly these texts; one given twice is there once.
 *
 * @param strings how strings of JSON are written in the surroundings
 * @throws GrammarError `CONSTRAINT_INVALID` without options, `CONSTRAINT_UNSUPPORTED` for an empty one
 */
export function choiceGrammar(
  options: readonly string[],
  around: Surroundings = (root) => root,
  strings: Grammar['strings'] = 'plain',
): GrammarRules {
  const place = (index: number) => ({ at: `options[${index}]`, keyword: 'options' });
  if (options.length === 0) throw invalid('choice', place(0), 'it lists no options; give at least one');
  const empty = options.indexOf('');
  // An answer of no tokens cannot be told from one that never began.
  if (empty >= 0) throw unsupported('choice', place(empty), 'an option is empty; leave it out');
  const lone = options.findIndex((option) => /\p{Surrogate}/u.test(option));
  if (lone >= 0) throw invalid('choice', place(lone), 'an option has half of a surrogate pair; send whole characters');
  const grammar = new Grammar(new Budget('choice'), strings);
  return grammar.rulesFrom(around(choiceOf([...new Set(options)].map(text)), grammar))!;
}
