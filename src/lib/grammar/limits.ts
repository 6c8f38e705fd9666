/** Limits of one constraint, in one place. A constraint over a limit is refused by the limit's name. */
export const CONSTRAINT_LIMITS = {
  /** Length of the constraint's text, or of all options of a choice together, in UTF-16 units. */
  characters: 262_144,
  /** Nesting of objects and arrays of a schema, or of groups of a regular expression or a grammar. */
  nesting: 64,
  /** The largest count of a repetition: {m,n}, minItems, maxLength and the like. */
  repetitions: 10_000,
  /** Length of an array in a schema: enum, required, anyOf and the like. */
  entries: 10_000,
  /** Digits of a number that bounds or divides others, written without an exponent. */
  digits: 1_000,
  /** States of one automaton. */
  states: 3_000,
  /** Transitions and closures that all automata of one constraint may take to build, a few seconds at most. */
  work: 15_000_000,
  /** Alternatives that one schema becomes when its anyOf, oneOf, not and the like are multiplied out. */
  alternatives: 1_500,
  /** Calls of a turn that must call. */
  calls: 16,
  /** Rules of the grammar that is made. */
  rules: 20_000,
  /** Size of the resulting grammar: parts of its rules, characters of their texts, and ranges of their sets. */
  grammarSize: 1_000_000,
} as const;
