import { AS_THEY_ARE, automatonExpression } from './automaton-grammar.js';
import { Budget } from './budget.js';
import { Grammar, type GrammarRules, type Surroundings } from './grammar.js';
import { patternAutomaton } from './pattern-automaton.js';
import { invalid, unsupported } from './refusal.js';
import { PatternError } from './regex-syntax.js';

/**
 * The grammar of the texts that a regular expression matches as a whole.
 *
 * @param strings how strings of JSON are written in the surroundings
 * @throws GrammarError `CONSTRAINT_INVALID` for wrong syntax or where nothing matches, `CONSTRAINT_UNSUPPORTED` for what is
 *   not regular or needs too large an automaton; both with the offset
 */
export function regexGrammar(
  source: string,
  around: Surroundings = (root) => root,
  strings: Grammar['strings'] = 'plain',
): GrammarRules {
  const work = new Budget('regex');
  const grammar = new Grammar(work, strings);
  try {
    work.at = 'offset 0';
    const matched = automatonExpression(patternAutomaton(source, 'whole', grammar.automata), AS_THEY_ARE, grammar);
    const made = grammar.rulesFrom(around(matched, grammar));
    if (made === undefined)
      throw invalid('regex', { at: 'offset 0', keyword: source }, 'no text matches it; loosen what contradicts');
    return made;
  } catch (error) {
    if (!(error instanceof PatternError)) throw error;
    const refuse = error.isInvalid ? invalid : unsupported;
    throw refuse('regex', { at: `offset ${error.offset}`, keyword: error.construct }, error.message);
  }
}
