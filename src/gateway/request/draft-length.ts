import { MOST_DRAFT_TOKENS } from '../../shared/step-limits.js';

/** After this many tries in a row of which no draft token was right, none is made for a while, twice as long each time. */
const MISSES = 3;
const FIRST_REST = 16;
const MOST_REST = 1024;

/** How many draft tokens of a method are worth a step's rows: follows how many were right. */
export class DraftLength {
  private misses = 0;
  private rest = FIRST_REST;
  private restsUntil = 0;

  /** @param most draft tokens at first */
  constructor(private most: number) {}

  /** Draft tokens after the first `known` tokens. */
  at(known: number): number {
    return known < this.restsUntil ? 0 : this.most;
  }

  /** Number of the last draft tokens that were accepted. @param known tokens, from which on it may rest */
  learn(right: number, of: number, known: number): void {
    if (right > 0) {
      this.misses = 0;
      this.rest = FIRST_REST;
    } else {
      this.misses += 1;
    }
    this.most = right === of ? Math.min(2 * this.most, MOST_DRAFT_TOKENS) : Math.max(1, right + 1);
    if (this.misses < MISSES) return;
    this.misses = 0;
    this.restsUntil = known + this.rest;
    this.rest = Math.min(2 * this.rest, MOST_REST);
  }
}
