/** The kinds of the public API's `Constraint`, as its fields are called. */
export type ConstraintKind = 'json_schema' | 'regex' | 'grammar' | 'choice';

/** Position of something in a constraint, and its name there. */
export interface ConstraintPlace {
  /** A JSON pointer into a schema, `offset 7` in a regular expression, `line 2, column 5` in a grammar. */
  readonly at: string;
  /** The keyword or the construct that is meant. */
  readonly keyword: string;
}

/** A constraint that has no grammar. */
export class GrammarError extends Error {
  override readonly name = 'GrammarError';

  /** @param metadata the field of the public API, and the place in it */
  constructor(
    readonly reason: 'CONSTRAINT_INVALID' | 'CONSTRAINT_UNSUPPORTED',
    message: string,
    readonly metadata: { readonly field: string } & ConstraintPlace,
  ) {
    super(message);
  }
}

/** A constraint that says nothing we could hold a text to: wrong syntax, a name nobody defines, nothing that fits. */
export function invalid(kind: ConstraintKind, place: ConstraintPlace, sentence: string): GrammarError {
  return refusal('CONSTRAINT_INVALID', kind, place, sentence);
}

/** A constraint that means something, which no grammar of ours says exactly; it is never held more weakly instead. */
export function unsupported(kind: ConstraintKind, place: ConstraintPlace, sentence: string): GrammarError {
  return refusal('CONSTRAINT_UNSUPPORTED', kind, place, sentence);
}

function refusal(
  reason: GrammarError['reason'],
  kind: ConstraintKind,
  { at, keyword }: ConstraintPlace,
  sentence: string,
) {
  const field = `constraint.${kind}`;
  return new GrammarError(reason, `${field} at ${at === '' ? 'its root' : at}: ${sentence}`, { field, at, keyword });
}
