import type { Automata, Automaton } from './automata.js';
import { type Pattern, PatternError, parsePattern } from './regex-syntax.js';
import type { RegexTerms, Term } from './regex-terms.js';

/** `search`: the pattern may begin and end anywhere, as JSON Schema's. `whole`: it spans the text. */
export type Matching = 'search' | 'whole';

/**
 * The texts that a regular expression matches.
 *
 * @throws PatternError where it cannot be read or is not regular
 */
export function patternAutomaton(source: string, matching: Matching, automata: Automata): Automaton {
  const { terms } = automata;
  const parts = partsOf(parsePattern(source));
  const leading = parts.findIndex(({ kind }) => kind !== 'start' && kind !== 'lookahead');
  const head = parts.slice(0, leading < 0 ? parts.length : leading);
  const ahead = head.filter((part) => part.kind === 'lookahead');
  if (ahead.length > 0 && matching === 'search' && head[0]?.kind !== 'start') {
    throw new PatternError(0, 'look-ahead', 'look-ahead is supported only where the pattern begins with ^');
  }
  const rest = parts.filter((part) => part.kind !== 'lookahead' || !head.includes(part));
  let automaton = automata.regex(spanning({ kind: 'sequence', parts: rest }, matching, terms));
  for (const { what, negative } of ahead) {
    const asked = automata.regex(terms.sequence(terms.ofPattern(what), terms.anything));
    automaton = automata.both(automaton, negative ? automata.not(asked) : asked);
  }
  return automaton;
}

const partsOf = (pattern: Pattern): readonly Pattern[] => (pattern.kind === 'sequence' ? pattern.parts : [pattern]);

/** The texts in which a pattern matches. Without ^ and $ at its ends, equal states have equal terms more often. */
function spanning(pattern: Pattern, matching: Matching, terms: RegexTerms): Term {
  const parts = partsOf(pattern);
  const [first, last] = [parts[0], parts.at(-1)];
  if (parts.length === 1 && first?.kind === 'choice') {
    return terms.choice(first.options.map((option) => spanning(option, matching, terms)));
  }
  const isFirst = first?.kind === 'start';
  const isLast = last?.kind === 'end';
  const inside = parts.slice(isFirst ? 1 : 0, isLast ? -1 : undefined).map((part) => terms.ofPattern(part));
  const [before, after] = [isFirst, isLast].map((is) => (is || matching === 'whole' ? terms.empty : terms.anything));
  return terms.sequenceOf([before!, ...inside, after!]);
}
