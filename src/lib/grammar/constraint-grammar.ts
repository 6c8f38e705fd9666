import { choiceGrammar } from './choice-grammar.js';
import { gbnfGrammar } from './gbnf-grammar.js';
import type { Grammar, GrammarRules, Surroundings } from './grammar.js';
import { schemaGrammar } from './json-schema/schema-grammar.js';
import { CONSTRAINT_LIMITS } from './limits.js';
import { type ConstraintKind, unsupported } from './refusal.js';
import { regexGrammar } from './regex-grammar.js';

/** A JSON Schema, a regular expression, a GBNF grammar, or texts of which one is chosen. */
export type TextConstraint =
  | { readonly $case: 'jsonSchema' | 'regex' | 'grammar'; readonly value: string }
  | { readonly $case: 'choice'; readonly value: { readonly options: readonly string[] } };

/**
 * The grammar of the texts that satisfy a constraint. It says exactly what the constraint says, or the constraint is refused. Nothing
 * is read, no time is looked at.
 *
 * @param around what else a text has, beside what is constrained
 * @param strings how strings of JSON are written
 * @throws GrammarError
 */
export function constraintGrammar(
  constraint: TextConstraint,
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
