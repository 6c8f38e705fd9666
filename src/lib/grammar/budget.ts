import { CONSTRAINT_LIMITS } from './limits.js';
import { type ConstraintKind, unsupported } from './refusal.js';

/** Budget spent on one constraint, and the position in it. Deterministic: it counts, it reads no clock. */
export class Budget {
  #spent = 0;
  /** The place that is being worked on: what a refusal names. */
  at = '';
  keyword = '';

  constructor(readonly kind: ConstraintKind) {}

  /** @throws GrammarError `CONSTRAINT_UNSUPPORTED` when all steps together are more than the limit */
  spend(steps: number): void {
    this.#spent += steps;
    if (this.#spent > CONSTRAINT_LIMITS.work) this.exceed('it takes too long to turn into a grammar; make it simpler');
  }

  /** @throws GrammarError `CONSTRAINT_UNSUPPORTED`, always */
  exceed(sentence: string): never {
    throw unsupported(this.kind, { at: this.at, keyword: this.keyword }, sentence);
  }
}
