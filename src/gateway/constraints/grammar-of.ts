import { constraintGrammar } from '../../lib/grammar/constraint-grammar.js';
import type { GrammarRules } from '../../lib/grammar/grammar.js';
import { GrammarError } from '../../lib/grammar/refusal.js';
import { RocmForgeError } from '../../shared/errors.js';
import type { Constraint } from '../../shared/generated/rocmforge/v1/inference.js';
import { type BeforeAnswer, behindAnswerOpener } from './reasoning-grammar.js';
import type { SpecialTokenNames } from './special-token-names.js';
import { callsOrAnswer, type ForcedToolCalls, stringsOf, toolCallsGrammar } from './tool-calls-grammar.js';

/** A constraint of which the kind is known, or calls that must come, or be of a form. */
export type GivenConstraint =
  | AnswerConstraint
  | {
      readonly $case: 'toolCalls';
      readonly value: ForcedToolCalls & { readonly answer?: ConstrainedResponse | undefined };
    }
  | { readonly $case: 'chatAnswer'; readonly value: ChatResponse };

type AnswerConstraint = NonNullable<Constraint['kind']>;

/** An answer that may come instead of calls, behind the markup that begins it. */
export interface ConstrainedResponse {
  readonly constraint: AnswerConstraint;
  readonly opener: string;
}

/** A constraint on the answer of a chat alone, which the model may reason before. */
export interface ChatResponse {
  readonly constraint: AnswerConstraint;
  readonly before: BeforeAnswer;
}

const NO_NAMES: SpecialTokenNames = { special: [], ends: [] };

/**
 * The grammar of the texts that satisfy a constraint. It says exactly what the constraint says, or the constraint is refused.
 * Nothing is read, no time is looked at.
 *
 * @param names which markup of calls and reasoning is a special token; default none
 * @throws RocmForgeError `CONSTRAINT_INVALID`, `CONSTRAINT_UNSUPPORTED`: the field, where in it (`at`) and the `keyword`
 */
export function grammarOf(constraint: GivenConstraint, names: SpecialTokenNames = NO_NAMES): GrammarRules {
  try {
    return grammar(constraint, names);
  } catch (error) {
    if (!(error instanceof GrammarError)) throw error;
    throw new RocmForgeError(error.reason, error.message, { ...error.metadata });
  }
}

function grammar(constraint: GivenConstraint, names: SpecialTokenNames): GrammarRules {
  if (constraint.$case === 'toolCalls') {
    const { answer, ...held } = constraint.value;
    if (answer === undefined) return toolCallsGrammar(held, names);
    return constraintGrammar(answer.constraint, callsOrAnswer(held, answer.opener, names), stringsOf(held));
  }
  if (constraint.$case !== 'chatAnswer') return constraintGrammar(constraint);
  const { constraint: inner, before } = constraint.value;
  return constraintGrammar(inner, behindAnswerOpener(before, names));
}
