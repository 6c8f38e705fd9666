import type { Constraint } from '../../shared/generated/rocmforge/v1/inference.js';
import { choiceGrammar } from './choice-grammar.js';
import { gbnfGrammar } from './gbnf-grammar.js';
import type { Grammar, GrammarRules, Surroundings } from './grammar.js';
import { schemaGrammar } from './json-schema/schema-grammar.js';
import { CONSTRAINT_LIMITS } from './limits.js';
import { type BeforeAnswer, behindAnswerOpener } from './reasoning-grammar.js';
import { type ConstraintKind, unsupported } from './refusal.js';
import { regexGrammar } from './regex-grammar.js';
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
  if (constraint.$case === 'toolCalls') {
    const { answer, ...held } = constraint.value;
    if (answer === undefined) return toolCallsGrammar(held, names);
    return answerGrammar(answer.constraint, callsOrAnswer(held, answer.opener, names), stringsOf(held));
  }
  if (constraint.$case !== 'chatAnswer') return answerGrammar(constraint);
  const { constraint: inner, before } = constraint.value;
  return answerGrammar(inner, behindAnswerOpener(before, names));
}

function answerGrammar(
  constraint: AnswerConstraint,
  around?: Surroundings,
  strings?: Grammar['strings'],
): GrammarRules {
  switch (constraint.$case) {
    case 'jsonSchema':
      refuseLength('json_schema', constraint.value.length);
      return schemaGrammar(constraint.value, around, strings);
    case 'regex':
      refuseLength('regex', constraint.value.length);
      return regexGrammar(constraint.value, around, strings);
    case 'grammar':
      refuseLength('grammar', constraint.value.length);
      return gbnfGrammar(constraint.value, around, strings);
    case 'choice':
      refuseLength(
        'choice',
        constraint.value.options.reduce((length, option) => length + option.length, 0),
      );
      return choiceGrammar(constraint.value.options, around, strings);
  }
}

function refuseLength(kind: ConstraintKind, length: number): void {
  if (length <= CONSTRAINT_LIMITS.characters) return;
  const sentence = `it has ${length} characters, ${CONSTRAINT_LIMITS.characters} are the most; ask for less at once`;
  throw unsupported(kind, { at: '', keyword: 'characters' }, sentence);
}
