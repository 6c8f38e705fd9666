import type { Automaton } from '../../lib/grammar/automata.js';
import { AS_THEY_ARE, automatonExpression } from '../../lib/grammar/automaton-grammar.js';
import { EVERYTHING } from '../../lib/grammar/code-points.js';
import {
  characters,
  choice,
  type Expression,
  type Grammar,
  optional,
  repeat,
  type Surroundings,
  sequence,
  special,
  text,
} from '../../lib/grammar/grammar.js';
import { markupExpression } from './markup.js';
import type { SpecialTokenNames } from './special-token-names.js';

export interface HeldReasoning {
  readonly begin: string;
  readonly end: string;
  /** Text between its end and what follows; default: a blank line, or less. */
  readonly between?: string | undefined;
  /** True if the prompt has begun it. */
  readonly isBegun: boolean;
}

/** Text of a constrained answer in front of the constraint. */
export interface BeforeAnswer {
  /** Absent: the model does not reason, or the prompt has ended its reasoning. */
  readonly reasoning?: HeldReasoning | undefined;
  /** Markup that begins the answer itself; empty: none. */
  readonly opener: string;
}

const FIELD = 'constraint';
const MOST = Number.POSITIVE_INFINITY;
/** Text that may stand between the end of the reasoning and what follows: a blank line. */
const LINES_BEHIND_REASONING = 2;

/** A constrained answer behind its reasoning and its opener. */
export function behindAnswerOpener({ reasoning, opener }: BeforeAnswer, names: SpecialTokenNames): Surroundings {
  return (constrained, grammar) => {
    const answer = grammar.add('answer', sequence(markupExpression(opener, names, FIELD), constrained));
    return reasoning === undefined ? answer : behindReasoning(answer, reasoning, names, grammar);
  };
}

/** A turn behind its reasoning, which the prompt has begun, or the model may begin. Its text is free up to the end's markup. */
export function behindReasoning(
  turn: Expression,
  { begin, end, between, isBegun }: HeldReasoning,
  names: SpecialTokenNames,
  grammar: Grammar,
): Expression {
  const isSpecial = names.special.includes(end);
  const thought = isSpecial
    ? sequence(repeat(characters(EVERYTHING), 0, MOST), special(end))
    : automatonExpression(textUpTo(end, grammar), AS_THEY_ARE, grammar);
  const apart =
    between === undefined ? repeat(text('\n'), 0, LINES_BEHIND_REASONING) : markupExpression(between, names, FIELD);
  const behind = sequence(thought, apart, turn);
  // Some models begin again what the prompt has begun.
  const start = markupExpression(begin, names, FIELD);
  return isBegun ? sequence(optional(start), behind) : choice(turn, sequence(start, behind));
}

/** Any text that ends where another stands in it for the first time: at its end, and nowhere before. */
function textUpTo(end: string, { automata }: Grammar): Automaton {
  const { terms } = automata;
  const [anything, mark] = [terms.anything, terms.text(end)];
  const atEnd = automata.regex(terms.sequence(anything, mark));
  const before = automata.regex(terms.sequenceOf([anything, mark, terms.anyCharacter, anything]));
  return automata.both(atEnd, automata.not(before));
}
