import fc from 'fast-check';
import { type GivenConstraint, grammarOf } from '../../src/gateway/constraints/grammar-of.js';
import type { GrammarRules } from '../../src/lib/grammar/grammar.js';
import { RocmForgeError } from '../../src/shared/errors.js';
import { exactSchemas } from './exact-schemas.js';
import { GBNF_GRAMMARS } from './gbnf-grammars.js';

const REGULAR = [
  'abcbd|abd',
  '[a-z]{2,40}',
  '(a|ab)*b',
  '[^"]*"x',
  '(ab?c{0,3}){2,5}',
  '\\p{Lu}+é?',
  '.{3}',
  '(a*)*b',
  'x{17,}y{0,70}',
];
const RECURSIVE = [
  'root ::= s "QA"\ns ::= s s | [a-z ]',
  'root ::= p "Q"\np ::= [a-z ] p [a-z ] | [a-z ] p | p [a-z ] | [a-z ]',
  'root ::= e\ne ::= e "+" e | e "*" e | "(" e ")" | [0-9]+',
  'root ::= a | b\na ::= "x" a "y" | ""\nb ::= "x" b "yy" | ""',
  'root ::= l\nl ::= l "," i | i\ni ::= [a-z]* | "[" l "]"',
  'root ::= a\na ::= b "x" | "q"\nb ::= a "y" | n a\nn ::= "" | "n"',
];

/** Grammars and expressions of each kind, and as many generated schemas; the same ones for a seed. */
export function maskConstraints(schemas: number, seed: number): GivenConstraint[] {
  return [
    ...GBNF_GRAMMARS.map(([, value]): GivenConstraint => ({ $case: 'grammar', value })),
    ...RECURSIVE.map((value): GivenConstraint => ({ $case: 'grammar', value })),
    ...REGULAR.map((value): GivenConstraint => ({ $case: 'regex', value })),
    { $case: 'jsonSchema', value: '{}' },
    { $case: 'jsonSchema', value: '{"type": "array", "items": {"type": "string", "maxLength": 20}}' },
    ...fc
      .sample(exactSchemas, { numRuns: schemas, seed })
      .map((value): GivenConstraint => ({ $case: 'jsonSchema', value })),
  ];
}

/** Rules of a constraint; undefined for one that is rejected. */
export function rulesOf(constraint: GivenConstraint): GrammarRules | undefined {
  try {
    return grammarOf(constraint);
  } catch (error) {
    if (error instanceof RocmForgeError) return undefined;
    throw error;
  }
}
